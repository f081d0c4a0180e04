# fs/operations/file_change.cc
# the transaction that shows data is appended before the data is written
s/^    TRY(fs_.volume->write(pieces_.pieces(), Stage::kData, context_.interruption));/    const Status early = record(outcome); TRY(fs_.volume->write(pieces_.pieces(), Stage::kData, context_.interruption)); return early;/
