# server/store/group_sync.cc
# after a sync that failed the next one is believed
# store
s/^    failure_ = synced;/    const Status once = synced;/
s/^    failed_ = true;/    ended_changed_.notify_all();\n    static_cast<void>(once);/
