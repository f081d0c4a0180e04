# fs/persistence/journal_format.cc
# a torn journal batch is replayed
s/if (header.checksum != checksum_of(header, payload, seed)) return std::nullopt;//
