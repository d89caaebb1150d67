#include "guest/image.h"

#include "base/fdio.h"

#include <fcntl.h>
#include <sys/mman.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* since Linux 6.3; says to a strict vm.memfd_noexec that this is meant */
#endif

int guest_image_memfd(struct error *err)
{
    unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    _cleanup_close_ int fd = memfd_create("holt-guest", flags | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("holt-guest", flags);
    if (fd < 0)
        return error_set_errno(err, errno, "make a memory file for holt-guest");
    int r = fd_write_all(fd, holt_guest_image, holt_guest_image_size);
    if (r < 0)
        return error_set_errno(err, -r, "write holt-guest to memory");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_set_errno(err, errno, "seal holt-guest in memory");
    return take_fd(fd);
}
