// SPDX-License-Identifier: Apache-2.0
#include "transport/accept/unauthenticated_places.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>
#include <vector>

namespace brickfs {
namespace {

PeerHost host(int number) {
  PeerHost made{};
  made[0] = static_cast<std::byte>(number);
  return made;
}

PeerAddress v6(const std::string& text) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &address.sin6_addr), 1);
  return peer_address(reinterpret_cast<const sockaddr*>(&address));
}

TEST(UnauthenticatedPlaces, WhoComesAlwaysGetsOneAndTheOldestOfTheSameAddressGoes) {
  UnauthenticatedPlaces places(8, 3);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(places.enter(host(1)).displaced);
  EXPECT_FALSE(places.enter(host(2)).displaced);
  EXPECT_EQ(places.enter(host(1)).displaced, 1u);
  EXPECT_EQ(places.enter(host(1)).displaced, 2u);
  EXPECT_FALSE(places.leave(1));
  EXPECT_TRUE(places.leave(3));
  EXPECT_FALSE(places.enter(host(1)).displaced);
}

// Many addresses with many places each do not push out who has one.
TEST(UnauthenticatedPlaces, WhenAllAreTakenTheAddressThatHasMostLosesOne) {
  UnauthenticatedPlaces places(6, 4);
  const auto honest = places.enter(host(9)).number;
  for (int i = 0; i < 3; ++i) places.enter(host(1));
  for (int i = 0; i < 2; ++i) places.enter(host(2));
  for (int i = 3; i < 50; ++i) EXPECT_TRUE(places.enter(host(2 + i % 2)).displaced);
  EXPECT_TRUE(places.leave(honest));
}

// As many addresses as there are places, or more: each of them has its place for as long as the others.
TEST(UnauthenticatedPlaces, AmongAddressesWithAsManyTheOldestGoes) {
  UnauthenticatedPlaces places(6, 4);
  std::vector<UnauthenticatedPlaces::Number> entered;
  for (int number = 20; number > 0; --number) {
    const auto place = places.enter(host(number));
    if (entered.size() >= 6) {
      EXPECT_EQ(place.displaced, entered[entered.size() - 6]);
    }
    entered.push_back(place.number);
  }
}

TEST(PeerAddress, AnIPv6NetworkIsOneHostAndAMappedAddressIsThatOfIPv4) {
  EXPECT_EQ(v6("2001:db8:1:2::1").host, v6("2001:db8:1:2:ffff::7").host);
  EXPECT_NE(v6("2001:db8:1:2::1").host, v6("2001:db8:1:3::1").host);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(77);
  ::inet_pton(AF_INET, "192.0.2.9", &address.sin_addr);
  const PeerAddress v4 = peer_address(reinterpret_cast<const sockaddr*>(&address));
  EXPECT_EQ(v4.host, v6("::ffff:192.0.2.9").host);
  EXPECT_NE(v4.host, v6("::ffff:192.0.2.8").host);
  EXPECT_EQ(v4.text, "192.0.2.9:77");
}

}  // namespace
}  // namespace brickfs
