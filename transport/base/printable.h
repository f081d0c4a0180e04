// SPDX-License-Identifier: Apache-2.0
// Text of others (names in volumes, of clients and of bricks) on its way to a terminal or a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace brickfs {

// Each byte that could do something there is written as \xNN: control characters (also U+0080 to U+009F and a line's
// end), characters that reorder a line (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), separators of lines
// (U+2028, U+2029) and what is not UTF-8. All else stays, so what has been made printable stays as it is, too.
std::string printable(std::string_view text);

// What fits into so many bytes of a text's beginning, without a part of a character of UTF-8. What is not UTF-8 is cut
// where it has to be.
std::string_view cut_text(std::string_view text, size_t most_bytes);

}  // namespace brickfs
