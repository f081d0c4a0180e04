# fs/shared/held.cc
# what was recalled while its grant was on its way is held
# shared
/^bool Held::may_keep(/,/^}/s/  return mark == .*/  return true;/
