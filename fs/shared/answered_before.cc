// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/answered_before.h"

#include <cerrno>
#include <variant>

namespace brickfs::shared {
namespace {

class Again {
 public:
  Again(FileOperations& files, size_t data_bytes, const MemberReply& reply, const OperationContext& context)
      : files_(files), data_bytes_(data_bytes), reply_(reply), context_(context) {}

  template <typename Asked>
  void operator()(const Asked& asked) {
    const Result<typename Asked::Answer> again = make(asked);
    answer_.status = again.code();
    if (again.ok()) answer_.fields = encode(*again);
  }
  ServedAnswer take() { return std::move(answer_); }

 private:
  // With the reference that the answer gives.
  Result<LeasedAttributes> give(Ino ino) {
    TRY(files_.hold(ino));
    const auto attributes = read(ino);
    if (attributes.ok()) {
      answer_.given.push_back(ino);
    } else {
      files_.forget(ino, 1);
    }
    return attributes;
  }
  Result<LeasedAttributes> read(Ino ino) {
    return LeasedAttributes{TRY(files_.get_attributes(ino, context_)), Lease::kNone};
  }

  Result<LeasedAttributes> make(const Make&) { return give(Ino{reply_.first}); }
  Result<LeasedAttributes> make(const Link& asked) { return give(asked.ino); }
  Result<LeasedAttributes> make(const SetAttributes& asked) { return read(asked.ino); }
  Result<Renamed> make(const Move&) { return Renamed{Ino{reply_.first}, Ino{reply_.second}}; }
  Result<Written> make(const Write&) { return Written{data_bytes_, {}}; }
  Result<WrittenUnits> make(const WriteUnits& asked) { return WrittenUnits{{asked.length, {}}, 0}; }
  Result<Count> make(const CopyRange&) { return Count{reply_.first}; }
  Result<Done> make(const Unlink&) { return Done{}; }
  Result<Done> make(const SetXattr&) { return Done{}; }
  Result<Done> make(const RemoveXattr&) { return Done{}; }
  Result<Done> make(const Allocate&) { return Done{}; }
  template <typename Asked>
  Result<typename Asked::Answer> make(const Asked&) {
    return Error(EPROTO, "a call that changes nothing was answered before");
  }

  FileOperations& files_;
  const size_t data_bytes_;
  const MemberReply& reply_;
  const OperationContext& context_;
  ServedAnswer answer_;
};

}  // namespace

ServedAnswer answered_before(FileOperations& files, const Decoded& call, const MemberReply& reply,
                             const OperationContext& context) {
  Again again(files, call.data.size(), reply, context);
  std::visit(again, call.request);
  return again.take();
}

}  // namespace brickfs::shared
