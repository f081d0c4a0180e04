// SPDX-License-Identifier: Apache-2.0
// Opens, mounts and checks what is on a recording brick, and says in a line why that does not succeed.
#pragma once

#include <memory>
#include <string>

#include "fs/operations/filesystem.h"
#include "fs/recovery/check.h"
#include "tests/support/recording_brick.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

std::shared_ptr<RecordingMedium> medium_on(const BrickState& state, bool durable, bool record);
// `soft`: as long as a mount's option of that name gives a brick.
Result<std::unique_ptr<VolumeSet>> open_volume(std::unique_ptr<Brick> brick, bool soft = false);
// All bricks of the medium; `why`: one line.
Result<std::unique_ptr<VolumeSet>> open_volume(RecordingMedium& medium, std::string* why);
// Null, with `why`: it cannot be mounted, or not as wanted.
std::unique_ptr<Filesystem> mount(std::unique_ptr<VolumeSet> volume, bool read_only, std::string* why);
std::unique_ptr<Filesystem> mount(RecordingMedium& medium, std::string* why);
// Empty: no damage. `why`: from check_filesystem().
std::string first_line(const Result<CheckReport>& report, const std::string& why);
// Empty: unmounted to the end, with nothing that the next mount would have to settle.
std::string check_unmounted(RecordingMedium& medium);
// Empty: no damage, and no leak if it is marked clean. For mounts that could not do all to the end, or had files open.
std::string check_ended(RecordingMedium& medium);

}  // namespace brickfs
