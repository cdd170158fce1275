#pragma once

#include <cstdint>
#include <vector>

/** Where a value that passed a filter lies. */
struct BbflowRow
{
    int64_t Step;  ///< position in the batch
    int64_t Index; ///< flat index in the block
};

/** What passed one filter, tile by tile and within a tile step by step. */
struct BbflowRows
{
    std::vector<BbflowRow> Rows;
};

extern "C"
{
    /** @return null if there is no memory */
    __attribute__((visibility("default"))) BbflowRows *bbflow_rows_new();
    __attribute__((visibility("default"))) uint64_t bbflow_rows_count(const BbflowRows *rows);
    __attribute__((visibility("default"))) const BbflowRow *
    bbflow_rows_data(const BbflowRows *rows);
    __attribute__((visibility("default"))) void bbflow_rows_free(BbflowRows *rows);
}
