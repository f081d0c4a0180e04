# fs/space/space.cc
# freed space is used again before the transaction that freed it is durable
s/while (!freed.empty() \&\& raw(freed.front().by) <= raw(durable.load())) {/while (!freed.empty()) {/
