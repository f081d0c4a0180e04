// SPDX-License-Identifier: Apache-2.0
#include "transport/etcd/set_map_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using nlohmann::json;

MapReplica json_replica(uint8_t id, const std::string& source, ReplicaState state) {
  MapReplica made;
  made.id[0] = std::byte{id};
  made.source = source;
  made.domain = "rack " + std::to_string(id);
  made.state = state;
  made.boot = BootId{0xfedc'ba98'7654'3210};
  return made;
}

SetMap written_map() {
  SetMap map;
  map.set[0] = std::byte{0xab};
  map.set[15] = std::byte{1};
  map.generation = limits::kGeneration;
  map.wanted = 2;
  map.holder = MapHolder{ClientId{7}, "host (pid 12)", 41, true};
  map.places = {{{json_replica(1, "tcp://a:20470/home", ReplicaState::kInSync),
                  json_replica(2, "rdma://b:20470,b2:20470/home", ReplicaState::kStale)}},
                {{json_replica(3, "tcp://c:20470/home", ReplicaState::kInSync),
                  json_replica(4, "tcp://a:20470/home.2", ReplicaState::kSyncing)}}};
  map.places[0].replicas[1].since = 40;
  map.places[1].added = 39;
  map.places[1].replicas[0].leaving = true;
  map.places[1].replicas[1].missed = 0xfedc'0000'0000'0001;
  map.places[1].replicas[1].copied_blocks = 41;
  map.places[1].replicas[1].total_blocks = 100;
  map.places[1].replicas[1].trouble = "the brick is full";
  map.taker = MapTaker{ClientId{8}, "other (pid 13)"};
  return map;
}

// What parse_map() says of the sample's JSON after `change`.
std::string why_not_json(const std::function<void(json&)>& change, int code = EUCLEAN) {
  json text = json::parse(format_map(written_map()));
  change(text);
  std::string why;
  EXPECT_EQ(parse_map(text.dump(), &why).code(), code) << text.dump(1);
  return why;
}

TEST(SetMapJson, IsReadAsItWasWritten) {
  std::string why;
  const auto read = parse_map(format_map(written_map()), &why);
  ASSERT_TRUE(read.ok()) << why;
  EXPECT_EQ(*read, written_map());
  SetMap without_holder = written_map();
  without_holder.holder.reset();
  EXPECT_EQ(*parse_map(format_map(without_holder), &why), without_holder);
}

TEST(SetMapJson, IsForPeople) {
  const std::string text = format_map(written_map());
  EXPECT_GT(std::count(text.begin(), text.end(), '\n'), 20);
  EXPECT_NE(text.find("\"set\": \"ab000000000000000000000000000001\""), text.npos) << text;
  EXPECT_NE(text.find("\"state\": \"in sync\""), text.npos) << text;
  EXPECT_NE(text.find("\"boot\": \"fedcba9876543210\""), text.npos) << text;
}

TEST(SetMapJson, UnknownMembersArePassedOver) {
  json text = json::parse(format_map(written_map()));
  text["comment"] = {1, 2};
  text["holder"]["since"] = "noon";
  text["places"][0]["replicas"][1]["weight"] = 1.5;
  std::string why;
  const auto read = parse_map(text.dump(), &why);
  ASSERT_TRUE(read.ok()) << why;
  EXPECT_EQ(*read, written_map());
}

TEST(SetMapJson, ANewerFormatIsRefused) {
  EXPECT_EQ(why_not_json([](json& map) { map["format"] = 2; }, EPROTO), "it is of format 2, made by a newer brickfs");
  EXPECT_EQ(why_not_json([](json& map) { map["format"] = 0; }), "it has no format");
  EXPECT_EQ(why_not_json([](json& map) { map.erase("format"); }), "it has no format");
}

TEST(SetMapJson, EachMemberHasToBeThereAndOfItsKind) {
  const json map = json::parse(format_map(written_map()));
  const auto damage = [](const json::json_pointer& at) {
    for (const json& bad : {json(), json(-1), json(1.5), json("x"), json::array({1}), json(true)}) {
      json text = json::parse(format_map(written_map()));
      if (text[at].type() == bad.type() || (at.to_string() == "/holder" && bad.is_null())) continue;
      if (text[at].is_string() && bad.is_string()) continue;
      text[at] = bad;
      std::string why;
      EXPECT_FALSE(parse_map(text.dump(), &why).ok()) << at << " = " << bad;
      EXPECT_FALSE(why.empty());
    }
  };
  for (const char* at : {"/format", "/set", "/generation", "/wanted", "/holder", "/places"})
    damage(json::json_pointer(at));
  for (const char* of : {"/holder", "/places/0/replicas/1"}) {
    for (const auto& [name, value] : map[json::json_pointer(of)].items()) {
      damage(json::json_pointer(std::string(of) + "/" + name));
      const auto why =
          why_not_json([&, of = of, name = name](json& text) { text[json::json_pointer(of)].erase(name); });
      EXPECT_NE(why.find("`" + name + "`"), why.npos) << why;
    }
  }
}

TEST(SetMapJson, NumbersAndListsAreBounded) {
  why_not_json([](json& map) { map["generation"] = limits::kGeneration + 1; });
  why_not_json([](json& map) { map["wanted"] = limits::kReplicas + 1; });
  why_not_json([](json& map) { map["holder"]["epoch"] = UINT64_MAX; });
  why_not_json([](json& map) { map["holder"]["name"] = std::string(limits::kClientNameBytes + 1, 'x'); });
  why_not_json([](json& map) { map["places"][0]["replicas"][0]["domain"] = std::string(256, 'x'); });
  why_not_json([](json& map) { map["places"] = json(std::vector<json>(limits::kBricksPerSet + 1, map["places"][0])); });
  why_not_json([](json& map) { map["set"] = std::string(31, '0'); });
  why_not_json([](json& map) { map["set"] = std::string(32, 'g'); });
  why_not_json([](json& map) { map["holder"]["client"] = "0x00000000000007"; });
}

TEST(SetMapJson, WhatIsNoMapIsRefused) {
  std::string why;
  for (const char* text : {"", "{", "[]", "3", "\"map\"", "{}", "<html>"}) {
    EXPECT_EQ(parse_map(text, &why).code(), EUCLEAN) << text;
  }
  EXPECT_EQ(parse_map(std::string(200'000, '['), &why).code(), EUCLEAN);
  EXPECT_EQ(parse_map(std::string(kMapBytes + 1, ' '), &why).code(), EUCLEAN);
  // Also where it would be passed over.
  const std::string nested = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string map = format_map(written_map());
  EXPECT_EQ(parse_map("{\"comment\": " + nested + "," + map.substr(map.find('{') + 1), &why).code(), EUCLEAN);
  EXPECT_EQ(why_not_json([](json& map) { map["places"][0]["replicas"][0]["state"] = "stale"; }),
            "place 0 has no copy in sync");
}

}  // namespace
}  // namespace brickfs
