// SPDX-License-Identifier: Apache-2.0
// brickfs._brickfs: the C interface of libbrickfs as Python objects. What is Python's own (file objects, fsspec) stands
// on it in Python (brickfs/__init__.py).
//
// An object keeps alive what it is of, so it may go in any order; what was not closed by then is closed with the last.
// The interpreter's lock is released during each call that may wait.
#include <fcntl.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/library/brickfs.h"
#include "fs/library/python/handle.h"
#include "fs/library/python/waits.h"

namespace py = pybind11;

namespace {

using brickfs::python::Handle;
using brickfs::python::kPiece;
using brickfs::python::Origin;
using brickfs::python::raise;
using brickfs::python::wait_for;
using brickfs::python::wait_for_lock;
using brickfs::python::wait_in_pieces;

constexpr size_t kWholeBytes = 4 << 20;  // a transfer is done whole, or not at all

[[noreturn]] void raise_open(int code) { brickfs::python::raise_os_error(-code, brickfs_error()); }

// Memory of a Python object: contiguous bytes, for as long as this lives.
class Bytes {
 public:
  Bytes(const py::object& object, bool written) {
    if (PyObject_GetBuffer(object.ptr(), &view_, written ? PyBUF_CONTIG : PyBUF_CONTIG_RO) != 0)
      throw py::error_already_set();
  }
  ~Bytes() { PyBuffer_Release(&view_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  void* data() const { return view_.buf; }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

// Registered buffers, to be known again by the address of what lies in them. Under the interpreter's lock.
class Registered {
 public:
  void add(brickfs_buffer* buffer) { all_[static_cast<char*>(brickfs_buffer_data(buffer))] = buffer; }
  void remove(brickfs_buffer* buffer) { all_.erase(static_cast<char*>(brickfs_buffer_data(buffer))); }
  const brickfs_buffer* find(const void* data, size_t size) const {
    auto next = all_.upper_bound(static_cast<const char*>(data));
    if (next == all_.begin()) return nullptr;
    const auto& [start, buffer] = *std::prev(next);
    const size_t offset = static_cast<size_t>(static_cast<const char*>(data) - start);
    const size_t length = brickfs_buffer_length(buffer);
    return offset <= length && size <= length - offset ? buffer : nullptr;
  }

 private:
  std::map<const char*, brickfs_buffer*> all_;
};

struct Owner {
  virtual ~Owner() = default;
  Registered registered;
};

struct Fs : Owner {
  explicit Fs(brickfs_fs* opened) : handle(opened, brickfs_fs_close, "the file system is closed") {}
  auto get() const { return handle.use(); }
  mutable Handle<brickfs_fs> handle;
};

struct Patience {
  Patience() {
    if (const int code = brickfs_patience_new(&patience); code < 0) raise(code);
  }
  ~Patience() {
    if (origin.is_here()) brickfs_patience_free(patience);
  }
  brickfs_patience* get() const {
    if (!origin.is_here()) brickfs::python::raise_os_error(EBADF, "it was made before fork(2), and is the parent's");
    return patience;
  }
  brickfs_patience* patience = nullptr;
  Origin origin;
};

struct Volume : Owner {
  explicit Volume(brickfs_volume* opened) : handle(opened, brickfs_volume_close, "the volume is closed") {}
  auto get() const { return handle.use(); }
  mutable Handle<brickfs_volume> handle;
};

struct Buffer {
  Buffer(std::shared_ptr<Owner> of, brickfs_buffer* made) : owner(std::move(of)), buffer(made) {
    owner->registered.add(buffer);
  }
  ~Buffer() {
    owner->registered.remove(buffer);
    if (origin.is_here()) brickfs_buffer_free(buffer);
  }
  std::shared_ptr<Owner> owner;
  brickfs_buffer* buffer;
  Origin origin;
};

struct File {
  File(std::shared_ptr<Fs> of, brickfs_file* opened, bool at_end)
      : fs(std::move(of)), appends(at_end), handle(opened, brickfs_close, "I/O operation on closed file.") {}
  auto get() const { return handle.use(); }
  std::shared_ptr<Fs> fs;
  const bool appends;
  mutable Handle<brickfs_file> handle;
};

// Closed by close(), and else with the last that keeps it alive. EBUSY: a call is under way, or something of it is
// open.
template <typename T>
void close_now(Handle<T>& handle) {
  if (const int code = handle.close(); code < 0) raise(code);
}

std::shared_ptr<Fs> open_fs(const std::string& source, const std::string& options) {
  brickfs_fs* fs = nullptr;
  int code = 0;
  {
    const py::gil_scoped_release unlocked;
    code = brickfs_fs_open(source.c_str(), options.c_str(), &fs);
  }
  if (code < 0) raise_open(code);
  return std::make_shared<Fs>(fs);
}

std::shared_ptr<Volume> open_volume(const std::string& source, const std::string& options) {
  brickfs_volume* volume = nullptr;
  int code = 0;
  {
    const py::gil_scoped_release unlocked;
    code = brickfs_volume_open(source.c_str(), options.c_str(), &volume);
  }
  if (code < 0) raise_open(code);
  return std::make_shared<Volume>(volume);
}

// As os.stat_result takes it: ten whole numbers, three times in seconds, three in nanoseconds, and what Linux adds.
py::tuple tuple_of(const struct stat& stat) {
  const auto ns = [](const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
  const auto s = [](const timespec& time) { return double(time.tv_sec) + double(time.tv_nsec) / 1e9; };
  return py::make_tuple(stat.st_mode, stat.st_ino, stat.st_dev, stat.st_nlink, stat.st_uid, stat.st_gid, stat.st_size,
                        stat.st_atim.tv_sec, stat.st_mtim.tv_sec, stat.st_ctim.tv_sec, s(stat.st_atim), s(stat.st_mtim),
                        s(stat.st_ctim), ns(stat.st_atim), ns(stat.st_mtim), ns(stat.st_ctim), stat.st_blksize,
                        stat.st_blocks, stat.st_rdev);
}

// (name, type, ino) or (name, type, ino, attributes).
py::list list_directory(const Fs& fs, const std::string& path, bool attributes) {
  const auto used = fs.get();
  brickfs_dir* opened = nullptr;
  wait_for([&] { return brickfs_opendir(used, path.c_str(), &opened); }, path);
  const std::unique_ptr<brickfs_dir, int (*)(brickfs_dir*)> dir(opened, brickfs_closedir);
  py::list entries;
  brickfs_dirent entry;
  struct stat stat;
  while (wait_for([&] { return brickfs_readdir(opened, &entry, attributes ? &stat : nullptr); }, path) == 1) {
    const std::string name(entry.name, entry.length);
    if (name == "." || name == "..") continue;
    const py::object text =
        py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefaultAndSize(name.data(), py::ssize_t(name.size())));
    if (!text) throw py::error_already_set();
    if (attributes) {
      entries.append(py::make_tuple(text, entry.type, entry.ino, tuple_of(stat)));
    } else {
      entries.append(py::make_tuple(text, entry.type, entry.ino));
    }
  }
  return entries;
}

using Get = int64_t (*)(brickfs_fs*, const char* path, const char* name, void* value, size_t size, int flags);

int64_t list_names(brickfs_fs* fs, const char* path, const char*, void* value, size_t size, int flags) {
  return brickfs_listxattr(fs, path, static_cast<char*>(value), size, flags);
}

py::bytes get_value(const Fs& fs, const std::string& path, const std::string& name, int flags, Get get) {
  const auto used = fs.get();
  std::string value(65536, '\0');
  for (;;) {
    int64_t length = 0;
    {
      const py::gil_scoped_release unlocked;
      length = get(used, path.c_str(), name.c_str(), value.data(), value.size(), flags);
    }
    if (length == -ERANGE && value.size() < (2u << 20)) {
      value.resize(value.size() * 2);
      continue;
    }
    if (length < 0) raise(length, path);
    return py::bytes(value.data(), static_cast<size_t>(length));
  }
}

// The arguments of what moves bytes: their memory, and where in the volume. Not told apart by pybind11, whose complaint
// about wrong ones has all those bytes in it.
struct Placed {
  Placed(const py::args& arguments, const py::kwargs& named, const char* names[3]) {
    PyObject* memory = nullptr;
    PyObject* number = nullptr;
    if (PyArg_ParseTupleAndKeywords(arguments.ptr(), named.ptr(), "OO", const_cast<char**>(names), &memory, &number) ==
        0)
      throw py::error_already_set();
    const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(number));
    if (!whole) throw py::error_already_set();
    at = PyLong_AsUnsignedLongLong(whole.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      raise(-EINVAL);
    }
    object = py::reinterpret_borrow<py::object>(memory);
  }
  py::object object;
  uint64_t at = 0;
};

using Move = int64_t (*)(brickfs_file*, const brickfs_vector*, unsigned, uint64_t);

int64_t move_bytes(const File& file, const py::args& arguments, const py::kwargs& named, bool reads) {
  static const char* names[] = {"", "offset", nullptr};
  const Placed placed(arguments, named, names);
  const Bytes bytes(placed.object, reads);
  const brickfs_vector vector{bytes.data(), bytes.size(), file.fs->registered.find(bytes.data(), bytes.size())};
  const auto handle = file.get();
  const Move move = reads ? brickfs_preadv : brickfs_pwritev;
  const auto call = [&] { return move(handle, &vector, 1, placed.at); };
  // What is appended, or is moved in parts, is not done again.
  return bytes.size() > kWholeBytes || (file.appends && !reads) ? wait_for(call) : wait_in_pieces(call);
}

int64_t move_blocks(const Volume& volume, const py::args& arguments, const py::kwargs& named, bool reads) {
  static const char* names[] = {"", "address", nullptr};
  const Placed placed(arguments, named, names);
  const Bytes bytes(placed.object, reads);
  const brickfs_buffer* const buffer = volume.registered.find(bytes.data(), bytes.size());
  const auto handle = volume.get();
  return wait_for([&] {
    return reads ? brickfs_volume_read(handle, bytes.data(), bytes.size(), placed.at, buffer)
                 : brickfs_volume_write(handle, bytes.data(), bytes.size(), placed.at, buffer);
  });
}

void define_buffer(py::module_& module) {
  py::class_<Buffer, std::shared_ptr<Buffer>>(module, "Buffer", py::buffer_protocol(),
                                              "Registered memory: memoryview(buffer), numpy.frombuffer(buffer, dtype).")
      .def_buffer([](Buffer& self) {
        return py::buffer_info(static_cast<unsigned char*>(brickfs_buffer_data(self.buffer)),
                               py::ssize_t(brickfs_buffer_length(self.buffer)));
      })
      .def("__len__", [](const Buffer& self) { return brickfs_buffer_length(self.buffer); });
}

void define_file(py::module_& module) {
  py::class_<File, std::shared_ptr<File>>(module, "File")
      .def("close", [](File& self) { close_now(self.handle); })
      .def_property_readonly("closed", [](const File& self) { return self.handle.is_closed(); })
      .def("readinto_at", [](const File& self, const py::args& arguments,
                             const py::kwargs& named) { return move_bytes(self, arguments, named, true); })
      .def("write_at", [](const File& self, const py::args& arguments,
                          const py::kwargs& named) { return move_bytes(self, arguments, named, false); })
      .def("fsync", [](const File& self) { wait_in_pieces([file = self.get()] { return brickfs_fsync(file); }); })
      .def("truncate",
           [](const File& self, uint64_t size) {
             wait_for([&, file = self.get()] { return brickfs_ftruncate(file, size); });
           })
      .def("allocate",
           [](const File& self, int mode, uint64_t offset, uint64_t length) {
             wait_for([&, file = self.get()] { return brickfs_fallocate(file, mode, offset, length); });
           })
      .def("seek_data_or_hole",
           [](const File& self, uint64_t offset, int whence) {
             return wait_for([&, file = self.get()] { return brickfs_seek(file, offset, whence); });
           })
      .def("copy_range",
           [](const File& self, uint64_t offset, const File& to, uint64_t to_offset, uint64_t length) {
             return wait_for([&, from = self.get(), into = to.get()] {
               return brickfs_copy_range(from, offset, into, to_offset, length);
             });
           })
      .def("lock",
           [](const File& self, int type, uint64_t offset, uint64_t length, bool wait) {
             wait_for_lock(wait, [&, file = self.get()](int milliseconds) {
               return brickfs_lock_within(file, type, offset, length, milliseconds);
             });
           })
      .def("flock",
           [](const File& self, int operation) {
             wait_for_lock(true, [&, file = self.get()](int milliseconds) {
               return brickfs_flock_within(file, operation, milliseconds);
             });
           })
      .def("stat", [](const File& self) {
        struct stat stat {};
        wait_for([&, file = self.get()] { return brickfs_fstat(file, &stat); });
        return tuple_of(stat);
      });
}

// A call with one path and nothing but an errno.
template <typename... Arguments>
auto on_path(int (*call)(brickfs_fs*, const char*, Arguments...)) {
  return [call](const Fs& self, const std::string& path, Arguments... arguments) {
    wait_for([&, fs = self.get()] { return call(fs, path.c_str(), arguments...); }, path);
  };
}

using FsClass = py::class_<Fs, std::shared_ptr<Fs>>;

FsClass define_fs(py::module_& module) {
  FsClass fs(module, "Fs");
  fs.def("close",
         [](Fs& self) {
           const int code = self.handle.close();
           if (code < 0 && code != -EBUSY && *brickfs_error() != 0) raise_open(code);
           if (code < 0) raise(code);
         })
      .def_property_readonly("closed", [](const Fs& self) { return self.handle.is_closed(); })
      .def_property_readonly("read_only", [](const Fs& self) { return brickfs_fs_is_read_only(self.get()) == 1; })
      .def("abandon", [](const Fs& self) { wait_for([fs = self.get()] { return brickfs_fs_abandon(fs); }); })
      .def("sync", [](const Fs& self) { wait_in_pieces([fs = self.get()] { return brickfs_fs_sync(fs); }); })
      .def("statvfs",
           [](const Fs& self) {
             struct statvfs stat {};
             wait_for([&, fs = self.get()] { return brickfs_fs_statvfs(fs, &stat); });
             return py::make_tuple(stat.f_bsize, stat.f_frsize, stat.f_blocks, stat.f_bfree, stat.f_bavail,
                                   stat.f_files, stat.f_ffree, stat.f_favail, stat.f_flag, stat.f_namemax);
           })
      .def("buffer",
           [](const std::shared_ptr<Fs>& self, size_t length) {
             brickfs_buffer* buffer = nullptr;
             wait_for([&, fs = self->get()] { return brickfs_fs_buffer(fs, nullptr, length, &buffer); });
             return std::make_shared<Buffer>(self, buffer);
           })
      .def("open",
           [](const std::shared_ptr<Fs>& self, const std::string& path, int flags, mode_t mode) {
             brickfs_file* file = nullptr;
             wait_for([&, fs = self->get()] { return brickfs_open(fs, path.c_str(), flags, mode, &file); }, path);
             return std::make_shared<File>(self, file, (flags & O_APPEND) != 0);
           })
      .def("stat", [](const Fs& self, const std::string& path, int flags) {
        struct stat stat {};
        wait_for([&, fs = self.get()] { return brickfs_stat(fs, path.c_str(), flags, &stat); }, path);
        return tuple_of(stat);
      });
  return fs;
}

void define_names(FsClass& fs) {
  fs.def("list", list_directory)
      .def("mkdir", on_path(brickfs_mkdir))
      .def("rmdir", on_path(brickfs_rmdir))
      .def("unlink", on_path(brickfs_unlink))
      .def("rename",
           [](const Fs& self, const std::string& from, const std::string& to, unsigned flags) {
             wait_for([&, fs = self.get()] { return brickfs_rename(fs, from.c_str(), to.c_str(), flags); }, from);
           })
      .def("link",
           [](const Fs& self, const std::string& path, const std::string& other) {
             wait_for([&, fs = self.get()] { return brickfs_link(fs, path.c_str(), other.c_str()); }, path);
           })
      .def("symlink",
           [](const Fs& self, const std::string& target, const std::string& path) {
             wait_for([&, fs = self.get()] { return brickfs_symlink(fs, target.c_str(), path.c_str()); }, path);
           })
      .def("readlink", [](const Fs& self, const std::string& path) {
        std::string target(4096, '\0');
        const int64_t length = wait_for(
            [&, fs = self.get()] { return brickfs_readlink(fs, path.c_str(), target.data(), target.size()); }, path);
        return py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefaultAndSize(target.data(), length));
      });
}

void define_attributes(FsClass& fs) {
  fs.def("truncate", on_path(brickfs_truncate))
      .def("chmod", on_path(brickfs_chmod))
      .def("chown", on_path(brickfs_chown))
      .def("utime",
           [](const Fs& self, const std::string& path, int64_t atime_ns, int64_t mtime_ns, int flags) {
             const auto time = [](int64_t ns) {
               const int64_t rest = ((ns % 1'000'000'000) + 1'000'000'000) % 1'000'000'000;
               return timespec{(ns - rest) / 1'000'000'000, rest};
             };
             const timespec times[2] = {time(atime_ns), time(mtime_ns)};
             wait_for([&, fs = self.get()] { return brickfs_utimens(fs, path.c_str(), times, flags); }, path);
           })
      .def("setxattr",
           [](const Fs& self, const std::string& path, const std::string& name, const py::object& value, int flags) {
             const Bytes bytes(value, false);
             wait_for(
                 [&, fs = self.get()] {
                   return brickfs_setxattr(fs, path.c_str(), name.c_str(), bytes.data(), bytes.size(), flags);
                 },
                 path);
           })
      .def("getxattr", [](const Fs& self, const std::string& path, const std::string& name,
                          int flags) { return get_value(self, path, name, flags, brickfs_getxattr); })
      .def("listxattr", [](const Fs& self, const std::string& path,
                           int flags) { return get_value(self, path, "", flags, list_names); })
      .def("removexattr", [](const Fs& self, const std::string& path, const std::string& name, int flags) {
        wait_for([&, fs = self.get()] { return brickfs_removexattr(fs, path.c_str(), name.c_str(), flags); }, path);
      });
}

template <typename... Arguments>
auto on_blocks(int (*call)(brickfs_volume*, Arguments...)) {
  return [call](const Volume& self, Arguments... arguments) {
    wait_for([&, volume = self.get()] { return call(volume, arguments...); });
  };
}

// Those that have news. In pieces, so that signals of Python (a KeyboardInterrupt) end it.
py::list wait_for_news(const Volume& self, const py::list& notices, const std::optional<double>& timeout) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::vector<brickfs_notice> all;
  for (const auto& notice : notices) all.push_back(notice.cast<brickfs_notice>());
  py::list with_news;
  while (true) {
    const double left = timeout ? *timeout - std::chrono::duration<double>(Clock::now() - begin).count() : kPiece;
    const int milliseconds = static_cast<int>(std::ceil(std::clamp(left, 0.0, kPiece) * 1000));
    const int64_t count = wait_for([&, volume = self.get()] {
      return brickfs_volume_wait(volume, all.data(), static_cast<unsigned>(all.size()), milliseconds);
    });
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (count == 0 && left > 0) continue;
    for (size_t i = 0; i < all.size(); ++i) {
      notices[i].cast<brickfs_notice&>() = all[i];
      if (all[i].news != 0) with_news.append(notices[i]);
    }
    return with_news;
  }
}

void define_notice(py::module_& module) {
  py::class_<brickfs_notice>(module, "Notice", "What is known of a tag; kept from wait to wait.")
      .def(py::init([](uint64_t tag) {
             return brickfs_notice{tag, 0, 0, 0, 0};
           }),
           py::arg("tag"))
      .def_readonly("tag", &brickfs_notice::tag)
      .def_readonly("value", &brickfs_notice::value)
      .def_readonly("count", &brickfs_notice::count)
      .def_property_readonly("news", [](const brickfs_notice& notice) -> py::object {
        if (notice.news == BRICKFS_NEWS_UNKNOWN) return py::none();
        return py::int_(notice.news);
      });
}

void define_patience(py::module_& module) {
  const auto call = [](int (*function)(brickfs_patience*)) {
    return [function](const Patience& self) {
      if (const int code = function(self.get()); code < 0) raise(code);
    };
  };
  py::class_<Patience, std::shared_ptr<Patience>>(module, "Patience")
      .def(py::init<>())
      .def("begin",
           [](const Patience& self, int milliseconds) {
             if (const int code = brickfs_patience_begin(self.get(), milliseconds); code < 0) raise(code);
           })
      .def("end", call(brickfs_patience_end))
      .def("cancel", call(brickfs_patience_cancel));
}

void define_volume(py::module_& module) {
  py::class_<Volume, std::shared_ptr<Volume>>(module, "Volume", "Blocks of a volume, by address and count.")
      .def(py::init(&open_volume), py::arg("source"), py::arg("options") = "")
      .def("__enter__", [](const std::shared_ptr<Volume>& self) { return self; })
      .def("__exit__", [](Volume& self, const py::args&) { close_now(self.handle); })
      .def("close", [](Volume& self) { close_now(self.handle); })
      .def("reopen",
           [](const Volume& self) {
             return wait_for([volume = self.get()] { return brickfs_volume_reopen(volume); }) == 1;
           })
      .def("alloc", on_blocks(brickfs_volume_alloc), py::arg("address"), py::arg("count") = 1)
      .def("free", on_blocks(brickfs_volume_free), py::arg("address"), py::arg("count") = 1)
      .def("map", on_blocks(brickfs_volume_map), py::arg("address"), py::arg("count") = 1, py::arg("writable") = 1)
      .def("unmap", on_blocks(brickfs_volume_unmap), py::arg("address"), py::arg("count") = 1)
      .def("readinto", [](const Volume& self, const py::args& arguments,
                          const py::kwargs& named) { return move_blocks(self, arguments, named, true); })
      .def("write", [](const Volume& self, const py::args& arguments,
                       const py::kwargs& named) { return move_blocks(self, arguments, named, false); })
      .def("commit",
           [](const Volume& self, const std::vector<std::pair<uint64_t, uint64_t>>& named) {
             std::vector<brickfs_range> ranges;
             for (const auto& [address, bytes] : named) ranges.push_back({address, bytes});
             wait_for([&, volume = self.get()] { return brickfs_volume_commit(volume, ranges.data(), ranges.size()); });
           })
      .def("notify", on_blocks(brickfs_volume_notify), py::arg("tag"), py::arg("value") = 0)
      .def("wait", wait_for_news, py::arg("notices"), py::arg("timeout") = py::none())
      .def("list",
           [](const Volume& self) {
             std::vector<std::pair<uint64_t, uint64_t>> all;
             uint64_t cursor = 0;
             brickfs_range runs[256];
             while (const int64_t count = wait_for(
                        [&, volume = self.get()] { return brickfs_volume_list(volume, &cursor, runs, 256); })) {
               for (int64_t i = 0; i < count; ++i) all.emplace_back(runs[i].address, runs[i].count);
             }
             return all;
           })
      .def("buffer", [](const std::shared_ptr<Volume>& self, size_t length) {
        brickfs_buffer* buffer = nullptr;
        wait_for([&, volume = self->get()] { return brickfs_volume_buffer(volume, nullptr, length, &buffer); });
        return std::make_shared<Buffer>(self, buffer);
      });
}

}  // namespace

PYBIND11_MODULE(_brickfs, module) {
  define_buffer(module);
  define_file(module);
  FsClass fs = define_fs(module);
  define_names(fs);
  define_attributes(fs);
  define_notice(module);
  define_volume(module);
  define_patience(module);
  module.def("open_fs", open_fs);
  module.def("version", brickfs_version);
  module.attr("NOFOLLOW") = BRICKFS_NOFOLLOW;
  module.attr("BLOCK_BYTES") = BRICKFS_BLOCK_BYTES;
}
