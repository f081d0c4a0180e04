// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/source.h"

#include <gtest/gtest.h>

#include "transport/brick/volume_name.h"

namespace brickfs {
namespace {

TEST(Source, RemoteHasHostPortAndVolume) {
  const auto source = parse_source("tcp://brick.example:1234/home", nullptr);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->kind, SourceKind::kTcp);
  ASSERT_EQ(source->addresses.size(), 1u);
  EXPECT_EQ(source->addresses[0], (HostPort{"brick.example", 1234}));
  EXPECT_EQ(source->volume, "home");
  EXPECT_FALSE(source->embedded());
}

TEST(Source, PortAndVolumeHaveDefaults) {
  for (const char* text : {"rdma://10.0.0.1", "rdma://10.0.0.1/", "rdma://10.0.0.1/default", "rdma://10.0.0.1:20470"}) {
    const auto source = parse_source(text, nullptr);
    ASSERT_TRUE(source.ok()) << text;
    EXPECT_EQ(source->kind, SourceKind::kRdma);
    ASSERT_EQ(source->addresses.size(), 1u);
    EXPECT_EQ(source->addresses[0], (HostPort{"10.0.0.1", kDefaultPort}));
    EXPECT_EQ(source->volume, "default");
  }
}

TEST(Source, Ipv6GoesInBrackets) {
  const auto source = parse_source("tcp://[fe80::1%eth0]:99/v", nullptr);
  ASSERT_TRUE(source.ok());
  ASSERT_EQ(source->addresses.size(), 1u);
  EXPECT_EQ(source->addresses[0], (HostPort{"fe80::1%eth0", 99}));
  EXPECT_EQ(format_source(*source), "tcp://[fe80::1%eth0]:99/v");
  EXPECT_FALSE(parse_source("tcp://::1/v", nullptr).ok());
  EXPECT_FALSE(parse_source("tcp://[::1/v", nullptr).ok());
  EXPECT_FALSE(parse_source("tcp://[::1]x/v", nullptr).ok());
}

TEST(Source, RdmaTakesSeveralAddressesOfOneBrick) {
  const auto source = parse_source("rdma://10.0.0.1,10.1.0.1:99,[fe80::1%ib0]:7/v", nullptr);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->addresses,
            (std::vector<HostPort>{{"10.0.0.1", kDefaultPort}, {"10.1.0.1", 99}, {"fe80::1%ib0", 7}}));
  EXPECT_EQ(source->volume, "v");
  EXPECT_EQ(format_source(*source), "rdma://10.0.0.1:20470,10.1.0.1:99,[fe80::1%ib0]:7/v");
  EXPECT_TRUE(parse_source("rdma://a:1,a:2/v", nullptr).ok());  // two ports of one host are two addresses
}

TEST(Source, FabricNamesAProvider) {
  const auto source = parse_source("fabric://a,b:9+c/v?provider=tcp", nullptr);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->kind, SourceKind::kFabric);
  EXPECT_EQ(source->provider, "tcp;ofi_rxm");
  EXPECT_EQ(format_source(*source), "fabric://a:20471,b:9+c:20471/v?provider=tcp;ofi_rxm");
  EXPECT_EQ(format_source(source->brick(1)), "fabric://c:20471/v?provider=tcp;ofi_rxm");
  EXPECT_EQ(parse_source(format_source(*source), nullptr)->provider, source->provider);
  EXPECT_EQ(parse_source("fabric://a", nullptr)->provider, "");
  EXPECT_EQ(parse_source("fabric://a?provider=shm", nullptr)->volume, "default");
  for (const char* const text : {"fabric://a/v?provider=", "fabric://a/v?other=1", "fabric://a/v?provider=a/b",
                                 "tcp://a/v?provider=tcp", "rdma://a/v?provider=efa"}) {
    EXPECT_FALSE(parse_source(text, nullptr).ok()) << text;
  }
  const auto url = parse_listen_url("fabric://0.0.0.0?provider=efa", nullptr);
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(format_listen_url(*url), "fabric://0.0.0.0:20471?provider=efa");
}

TEST(Source, BricksOfASetStandBetweenPluses) {
  const auto source = parse_source("tcp://a+b:99+[fe80::1%ib0]:7/v", nullptr);
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE(source->is_set());
  ASSERT_EQ(source->bricks(), 3u);
  EXPECT_EQ(format_source(*source), "tcp://a:20470+b:99+[fe80::1%ib0]:7/v");
  EXPECT_EQ(format_source(source->brick(0)), "tcp://a:20470/v");
  EXPECT_EQ(format_source(source->brick(2)), "tcp://[fe80::1%ib0]:7/v");
  EXPECT_FALSE(source->brick(2).is_set());
  const auto paths = parse_source("rdma://a,a2+b,b2:9+c/v", nullptr);
  ASSERT_TRUE(paths.ok());
  EXPECT_EQ(paths->more_bricks[0], (std::vector<HostPort>{{"b", kDefaultPort}, {"b2", 9}}));
  EXPECT_EQ(format_source(*parse_source(format_source(*paths), nullptr)), format_source(*paths));
  EXPECT_FALSE(parse_source("tcp://a/v", nullptr)->is_set());
}

TEST(Source, ASetIsBoundedAndItsBricksDistinct) {
  const auto refusal = [](const std::string& text) {
    std::string why;
    EXPECT_EQ(parse_source(text, &why).code(), EINVAL) << text;
    return why;
  };
  EXPECT_EQ(refusal("tcp://a+b+a/v"), "a:20470 is named twice");
  EXPECT_EQ(refusal("rdma://a,b+c,b/v"), "b:20470 is named twice");
  for (const char* text : {"tcp://a+/v", "tcp://+a/v", "tcp://a++b/v", "tcp://a+b,c/v", "tcp://a+b/v+w"}) {
    EXPECT_FALSE(refusal(text).empty()) << text;
  }
  std::string text = "tcp://a0";
  for (int i = 1; i < 64; ++i) text += "+a" + std::to_string(i);
  EXPECT_TRUE(parse_source(text + "/v", nullptr).ok());
  EXPECT_EQ(refusal(text + "+more/v"), "a set has at most 64 bricks");
}

TEST(Source, EtcdHasEndpointsAndAVolume) {
  const auto source = parse_source("etcd://a,b:99,[fe80::1%eth0]/home", nullptr);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->kind, SourceKind::kEtcd);
  EXPECT_EQ(source->addresses, (std::vector<HostPort>{{"a", 2379}, {"b", 99}, {"fe80::1%eth0", 2379}}));
  EXPECT_EQ(source->volume, "home");
  EXPECT_FALSE(source->is_set());
  EXPECT_FALSE(source->embedded());
  EXPECT_EQ(format_source(*source), "etcd://a:2379,b:99,[fe80::1%eth0]:2379/home");
  EXPECT_EQ(format_source(*parse_source(format_source(*source), nullptr)), format_source(*source));
  EXPECT_EQ(parse_source("etcd://a", nullptr)->volume, "default");
}

TEST(Source, EtcdsEndpointsAreBoundedAndNoBricks) {
  const auto refusal = [](const std::string& text) {
    std::string why;
    EXPECT_EQ(parse_source(text, &why).code(), EINVAL) << text;
    return why;
  };
  EXPECT_EQ(refusal("etcd://a+b/v"), "etcd:// names endpoints of etcd, with ',' between; the bricks are in its map");
  EXPECT_EQ(refusal("etcd://a,a:2379/v"), "a:2379 is named twice");
  std::string text = "etcd://a0";
  for (int i = 1; i < 9; ++i) text += ",a" + std::to_string(i);
  EXPECT_TRUE(parse_source(text + "/v", nullptr).ok());
  EXPECT_EQ(refusal(text + ",more/v"), "etcd has at most 9 addresses");
  for (const char* bad : {"etcd://", "etcd:///v", "etcd://a,/v", "etcd://a/v/w", "etcd://a:0/v", "etcd://a/b c"})
    EXPECT_FALSE(refusal(bad).empty()) << bad;
}

TEST(Source, AddressesAreBoundedAndDistinct) {
  const auto why_not = [](const std::string& text) {
    std::string why;
    EXPECT_EQ(parse_source(text, &why).code(), EINVAL) << text;
    return why;
  };
  std::string text = "rdma://a0";
  for (int i = 1; i < 8; ++i) text += ",a" + std::to_string(i);
  EXPECT_TRUE(parse_source(text + "/v", nullptr).ok());
  EXPECT_EQ(why_not(text + ",a8/v"), "a brick has at most 8 addresses");
  EXPECT_EQ(why_not("tcp://a,b/v"),
            "tcp:// takes one address of a brick; several are for rdma:// and fabric://, and bricks of a set stand "
            "between '+'");
  EXPECT_EQ(why_not("rdma://a,b,a:20470/v"), "a:20470 is named twice");
  for (const char* bad : {"rdma://,/v", "rdma://a,/v", "rdma://,a/v", "rdma://a,,b/v", "rdma://a,b:0/v",
                          "rdma://a, b/v", "rdma://a:1,b:x/v", "rdma://[::1],::2/v"}) {
    EXPECT_FALSE(why_not(bad).empty());
  }
}

TEST(Source, EmbeddedHasSizeAndPath) {
  const auto memory = parse_source("memory:512M", nullptr);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->size_bytes, 512u << 20);
  EXPECT_TRUE(memory->embedded());
  const auto file = parse_source("file:/a/b,c,2G", nullptr);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->path, "/a/b,c");
  EXPECT_EQ(file->size_bytes, 2ull << 30);
  const auto without_size = parse_source("file:/a/b,c", nullptr);
  ASSERT_TRUE(without_size.ok());
  EXPECT_EQ(without_size->path, "/a/b,c");
  EXPECT_EQ(without_size->size_bytes, 0u);
}

TEST(Source, NonsenseIsRefusedWithAReason) {
  for (const char* text : {"", "tcp:", "tcp://", "tcp:///v", "tcp://host:/v", "tcp://host:70000/v", "tcp://host:12x/v",
                           "tcp://host:0/v", "tcp://ho st/v", "tcp://host/a/b", "tcp://host/a:b", "memory:", "memory:0",
                           "memory:12Q", "file:", "file:,1G", "file:/a,1Q", "http://host/v", "/a/b"}) {
    std::string why;
    EXPECT_EQ(parse_source(text, &why).code(), EINVAL) << text;
    EXPECT_FALSE(why.empty()) << text;
    EXPECT_EQ(why.find('\n'), std::string::npos) << text;
  }
}

TEST(Source, FormatIsWhatParseTakes) {
  for (const char* text : {"tcp://host:1/v", "rdma://[::1]:20470/default", "rdma://a:1,b:2/v", "memory:64M",
                           "file:/a/b,4G", "file:/a/b"}) {
    const auto source = parse_source(text, nullptr);
    ASSERT_TRUE(source.ok()) << text;
    EXPECT_EQ(format_source(*source), text);
  }
}

TEST(ListenUrl, TakesHostAndPortAndNoVolume) {
  const auto url = parse_listen_url("tcp://0.0.0.0:0", nullptr);
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "0.0.0.0");
  EXPECT_EQ(url->port, 0);
  EXPECT_EQ(parse_listen_url("tcp://[::]", nullptr)->port, kDefaultPort);
  EXPECT_EQ(parse_listen_url("rdma://host", nullptr)->kind, SourceKind::kRdma);
  for (const char* const text : {"tcp://[::1]:7", "rdma://host:20470"}) {
    EXPECT_EQ(format_listen_url(*parse_listen_url(text, nullptr)), text);
  }
  std::string why;
  EXPECT_FALSE(parse_listen_url("tcp://host/volume", &why).ok());
  EXPECT_FALSE(parse_listen_url("0.0.0.0:20470", &why).ok());
  EXPECT_FALSE(why.empty());
}

TEST(VolumeName, HasPlainCharactersOnly) {
  EXPECT_TRUE(is_volume_name("a-B_3.x"));
  EXPECT_FALSE(is_volume_name(""));
  EXPECT_FALSE(is_volume_name("a/b"));
  EXPECT_FALSE(is_volume_name("a b"));
  EXPECT_FALSE(is_volume_name(std::string(64, 'a')));
}

}  // namespace
}  // namespace brickfs
