# fs/shared/leases.cc
# what is just being changed is granted
# shared
s/^      if (found->second.is_closed(kind)) granted = without(granted, kind);/      continue;/
