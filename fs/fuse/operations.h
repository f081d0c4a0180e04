// SPDX-License-Identifier: Apache-2.0
// The callbacks by which libfuse hands requests over, in groups: each takes a request apart, calls the file system and
// replies. Threads: any, each with its FuseBuffers.
#pragma once

#define FUSE_USE_VERSION 314

#include <fuse3/fuse_lowlevel.h>

namespace brickfs {

// The table for fuse_session_new(); its user data is the FuseMount.
//
// Left out on purpose: flush, access, poll, ioctl, bmap (the kernel stops asking), getlk, setlk and flock (the kernel
// keeps locks by itself: there is no other client), release and releasedir (the kernel's references keep an unlinked
// file).
fuse_lowlevel_ops make_fuse_operations();

void set_name_operations(fuse_lowlevel_ops& operations);       // fs/fuse/name_operations.cc
void set_directory_operations(fuse_lowlevel_ops& operations);  // fs/fuse/directory_operations.cc
void set_attribute_operations(fuse_lowlevel_ops& operations);  // fs/fuse/attribute_operations.cc
void set_data_operations(fuse_lowlevel_ops& operations);       // fs/fuse/data_operations.cc

}  // namespace brickfs
