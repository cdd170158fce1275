! Drives WRF's io_adios2 as WRF does: a dry run that defines all fields, a commit, frames, and the next file.
program wrf_model
  use mpi
  implicit none
#include "wrf_io_flags.h"
  integer, parameter :: nx = 7, ny = 5, nz = 3, files = 3, frames = 4, halo = 2
  integer :: rank, ranks, ierr, status, handle, file, frame, hour, first, last
  character(19) :: date
  character(80) :: plain(3), stag(3), deep(3)
  real, allocatable :: t2(:, :), u(:, :), t(:, :, :)
  integer :: i, j, k

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  first = ny*rank/ranks + 1
  last = ny*(rank + 1)/ranks
  plain = [character(80) :: 'west_east', 'south_north', '']
  stag = [character(80) :: 'west_east_stag', 'south_north', '']
  deep = [character(80) :: 'west_east', 'bottom_top', 'south_north']
  allocate (t2(1 - halo:nx + halo, first - halo:last + halo), u(1 - halo:nx + 1 + halo, first - halo:last + halo))
  allocate (t(1 - halo:nx + halo, nz, first - halo:last + halo))
  call ext_adios2_ioinit('', status)
  call check('init')
  do file = 0, files - 1
    call tell(file*frames*6, date)
    call ext_adios2_open_for_write_begin('wrfout_d01_'//date, '', '', handle, status)
    call check('begin')
    call ext_adios2_put_dom_ti_char(handle, 'TITLE', ' OUTPUT FROM A MODEL', status)
    call write_all()
    call ext_adios2_put_var_ti_char(handle, 'description', 'T2', 'TEMP at 2 M', status)
    call ext_adios2_put_var_ti_char(handle, 'units', 'T2', 'K', status)
    call ext_adios2_open_for_write_commit(handle, status)
    call check('commit')
    do frame = 0, frames - 1
      hour = (file*frames + frame)*6
      call tell(hour, date)
      t2 = -1
      u = -1
      t = -1
      do j = first, last
        do i = 1, nx
          t2(i, j) = 280 + i + 10*j + sin(real(hour))
          do k = 1, nz
            t(i, k, j) = i + 10*j + 100*k + hour
          end do
        end do
        do i = 1, nx + 1
          u(i, j) = i - j + cos(real(hour))
        end do
      end do
      call ext_adios2_start_io_timestep(handle, status)
      call check('start')
      call write_all()
      call ext_adios2_end_io_timestep(handle, status)
      call check('end')
    end do
    call ext_adios2_ioclose(handle, status)
    call check('close')
  end do
  call ext_adios2_ioexit(status)
  call MPI_Finalize(ierr)

contains

  subroutine write_all()
    call write_field('T2', t2, 'XY ', plain, [nx, ny, 1], [1 - halo, first - halo, 1], [nx + halo, last + halo, 1], &
      [1, first, 1], [nx, last, 1])
    call write_field('U10', u, 'XY ', stag, [nx + 1, ny, 1], [1 - halo, first - halo, 1], &
      [nx + 1 + halo, last + halo, 1], [1, first, 1], [nx + 1, last, 1])
    call write_field('T', t, 'XZY', deep, [nx, nz, ny], [1 - halo, 1, first - halo], [nx + halo, nz, last + halo], &
      [1, 1, first], [nx, nz, last])
  end subroutine

  subroutine write_field(name, values, order, dims, domain, memory, memory_end, patch, patch_end)
    character(*), intent(in) :: name, order
    real, intent(in) :: values(*)
    character(80), intent(in) :: dims(3)
    integer, intent(in) :: domain(3), memory(3), memory_end(3), patch(3), patch_end(3)
    call ext_adios2_write_field(handle, date, name, values, WRF_REAL, 0, order, '', dims, [1, 1, 1], domain, memory, &
      memory_end, patch, patch_end, status)
    call check(name)
  end subroutine

  subroutine tell(hours, text)
    integer, intent(in) :: hours
    character(19), intent(out) :: text
    write (text, '("2018-06-", i2.2, "_", i2.2, ":00:00")') 29 + hours/24 - merge(30, 0, hours >= 48), mod(hours, 24)
    if (hours >= 48) text(6:7) = '07'
  end subroutine

  subroutine check(what)
    character(*), intent(in) :: what
    if (status /= 0) then
      print *, what, ' failed with status ', status
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine

end program

! What io_adios2 calls of WRF itself.

subroutine wrf_debug(level, text)
  integer, intent(in) :: level
  character(*), intent(in) :: text
  if (level == 0) print *, trim(text)
end subroutine

subroutine wrf_message(text)
  character(*), intent(in) :: text
  print *, trim(text)
end subroutine

subroutine nl_get_adios2_compression_enable(id, enabled)
  integer, intent(in) :: id
  logical, intent(out) :: enabled
  enabled = id < 0
end subroutine

subroutine nl_get_adios2_blosc_compressor(id, name)
  integer, intent(in) :: id
  character(32), intent(out) :: name
  name = merge('lz4', 'lz4', id > 0)
end subroutine

subroutine nl_get_adios2_numaggregators(id, number)
  integer, intent(in) :: id
  integer, intent(out) :: number
  number = min(id, 1)
end subroutine
