/** Sees that what is declared of libfabric is what its headers have. */

#include "Ofi.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

namespace ofi = bbflow::ofi;

#define same(OURS, MEMBER, THEIRS, FIELD)                                                          \
    static_assert(offsetof(ofi::OURS, MEMBER) == offsetof(THEIRS, FIELD),                          \
                  #OURS "::" #MEMBER " isn't where libfabric has it");

same(FidOps, Close, fi_ops, close) same(FidOps, Bind, fi_ops, bind);
same(FidOps, Control, fi_ops, control) same(Fid, Ops, fid, ops);
same(TransmitAttributes, OpFlags, fi_tx_attr, op_flags);
same(TransmitAttributes, MessageOrder, fi_tx_attr, msg_order);
same(ReceiveAttributes, MessageOrder, fi_rx_attr, msg_order);
same(EndpointAttributes, Type, fi_ep_attr, type);
same(EndpointAttributes, MaxMessageBytes, fi_ep_attr, max_msg_size);
same(DomainAttributes, VectorType, fi_domain_attr, av_type);
same(DomainAttributes, MemoryMode, fi_domain_attr, mr_mode);
same(DomainAttributes, KeyBytes, fi_domain_attr, mr_key_size);
same(FabricAttributes, Provider, fi_fabric_attr, prov_name);
same(Info, Caps, fi_info, caps) same(Info, Mode, fi_info, mode);
same(Info, AddressFormat, fi_info, addr_format) same(Info, Transmit, fi_info, tx_attr);
same(Info, Receive, fi_info, rx_attr) same(Info, Endpoint, fi_info, ep_attr);
same(Info, Domain, fi_info, domain_attr) same(Info, Fabric, fi_info, fabric_attr);
same(QueueAttributes, Size, fi_cq_attr, size) same(QueueAttributes, Format, fi_cq_attr, format);
same(QueueAttributes, Wait, fi_cq_attr, wait_obj) same(VectorAttributes, Type, fi_av_attr, type);
same(QueueError, Error, fi_cq_err_entry, err);
same(Queue, Ops, fid_cq, ops) same(QueueOps, Read, fi_ops_cq, read);
same(QueueOps, ReadError, fi_ops_cq, readerr) same(Vector, Ops, fid_av, ops);
same(VectorOps, Insert, fi_ops_av, insert) same(Region, Description, fid_mr, mem_desc);
same(Region, Key, fid_mr, key) same(NameOps, GetName, fi_ops_cm, getname);
same(RmaOps, Read, fi_ops_rma, read) same(RmaOps, Write, fi_ops_rma, write);
same(Endpoint, Names, fid_ep, cm) same(Endpoint, Rma, fid_ep, rma);
same(DomainOps, OpenVector, fi_ops_domain, av_open);
same(DomainOps, OpenQueue, fi_ops_domain, cq_open);
same(DomainOps, OpenEndpoint, fi_ops_domain, endpoint) same(RegionOps, Register, fi_ops_mr, reg);
same(RegionOps, RegisterBy, fi_ops_mr, regattr)
    same(RegionAttributes, Key, fi_mr_attr, requested_key);
same(RegionAttributes, Kind, fi_mr_attr, iface) same(RegionAttributes, Number, fi_mr_attr, device);
same(Domain, Ops, fid_domain, ops) same(Domain, Regions, fid_domain, mr);
same(FabricOps, OpenDomain, fi_ops_fabric, domain) same(FabricOps, TryWait, fi_ops_fabric, trywait);
same(Fabric, Ops, fid_fabric, ops);

static_assert(sizeof(ofi::QueueAttributes) == sizeof(fi_cq_attr));
static_assert(sizeof(ofi::VectorAttributes) == sizeof(fi_av_attr));
static_assert(sizeof(ofi::QueueError) == sizeof(fi_cq_err_entry));
static_assert(ofi::Rma == FI_RMA && ofi::Read == FI_READ && ofi::Write == FI_WRITE);
static_assert(ofi::Transmit == FI_TRANSMIT && ofi::Recv == FI_RECV && ofi::Source == FI_SOURCE);
static_assert(ofi::RemoteRead == FI_REMOTE_READ && ofi::RemoteWrite == FI_REMOTE_WRITE);
static_assert(ofi::OfGpus == FI_HMEM && int(ofi::GpuMemory) == FI_MR_HMEM);
static_assert(int(ofi::Owner::Cuda) == FI_HMEM_CUDA && int(ofi::Owner::Rocr) == FI_HMEM_ROCR);
static_assert(ofi::DeliveryComplete == FI_DELIVERY_COMPLETE);
static_assert(ofi::ReadAfterWrite == FI_ORDER_RAW && ofi::AnyContext == (FI_CONTEXT | FI_CONTEXT2));
static_assert(int(ofi::ReliableDatagram) == FI_EP_RDM && int(ofi::LocalMemory) == FI_MR_LOCAL);
static_assert(int(ofi::VirtualAddress) == FI_MR_VIRT_ADDR &&
              int(ofi::Allocated) == FI_MR_ALLOCATED);
static_assert(int(ofi::ProviderKey) == FI_MR_PROV_KEY && int(ofi::OfEndpoint) == FI_MR_ENDPOINT);
static_assert(int(ofi::NoWait) == FI_WAIT_NONE && int(ofi::WaitDescriptor) == FI_WAIT_FD);
static_assert(int(ofi::GetWait) == FI_GETWAIT && int(ofi::Enable) == FI_ENABLE);
static_assert(int(ofi::TryAgain) == FI_EAGAIN && int(ofi::ErrorAvailable) == FI_EAVAIL);
static_assert(ofi::ByContext == FI_CQ_FORMAT_CONTEXT && ofi::LastSocketAddress == FI_SOCKADDR_IB);
