/* SPDX-License-Identifier: Apache-2.0 */
/* A shared volume whose blocks have two copies, for spin: a file in one of two units, whoever coordinates, who writes it in
 * place, leaves a copy out that he does not reach, and brings it up to date when it is back; a member that reads one of
 * the copies under a lease, and fills units that are lent to it. docs/shared.md, docs/sets.md; tests/models/check_shared
 * runs this, and takes the rules out one by one.
 *
 * Nobody reads less than was known when he asked, nor what is not the file's yet, from whichever copy that is in sync.
 * Who dies is in the other models.
 *
 *   NORECALL   where bytes are is recalled before they are changed, or are elsewhere
 *   NOCLOSE    ... and nobody is told where they are until that is done
 *   NOLOOK     what was read counts if the lease was still held behind the reading
 *   LAYALL     a member is told of copies that are in sync
 *   NOOUT      a copy that misses a write is left out
 *   NOSYNC     one that comes back is in sync when it has been copied
 *   NOHOLD     ... which nobody writes meanwhile
 *   NOMET      what a member has filled is the file's if none of it was copied from one copy to the other since it was lent */
#ifndef WRITES
#define WRITES 3
#endif
#ifndef FLIPS
#define FLIPS 1
#endif
#ifndef READS
#define READS 2
#endif
#define IS_WRITTEN(c) (in_sync[c] || syncing[c])
#define OTHER(c) (1 - (c))
#define MEM(c, u) mem[2 * (c) + (u)]

byte mem[4];
/* The coordinator. */
bit up[2], in_sync[2], syncing[2], writing, holds;
byte next[2];                    /* unit to be copied */
byte at, value, number, known, flips;
/* What the member has: where the bytes are; a unit to fill. */
bit leased, told[2], lent, is_lent_to[2], met, fills, asks;
byte told_unit, filled;

inline put(c) {
  if
  :: IS_WRITTEN(c) && up[c] -> MEM(c, at) = w
#ifdef NOOUT
  :: IS_WRITTEN(c) && !up[c]
#else
  :: IS_WRITTEN(c) && !up[c] && in_sync[OTHER(c)] -> in_sync[c] = 0; syncing[c] = 0      /* else it is waited for */
#endif
  :: !IS_WRITTEN(c)
  fi
}

proctype Coordinator() {
  byte w;
end:
  do
  /* in place: on one copy after the other */
  :: atomic { number < WRITES && !fills && !holds && (in_sync[0] && up[0] || in_sync[1] && up[1]) ->
       writing = 1; number++; w = number
#ifndef NORECALL
       ; leased = 0
#endif
     };
     atomic { put(0) };
     atomic { put(1) };
     atomic { value = w; known = w; writing = 0; w = 0 }
  /* a unit that a member has filled */
  :: atomic { asks && !holds ->
       if
#ifdef NOMET
       :: true ->
#else
       :: !met ->
#endif
#ifndef NORECALL
          leased = 0;
#endif
          at = 1 - at; value = filled; known = filled
       :: else                               /* refused */
       fi;
       lent = 0; asks = 0; fills = 0; filled = 0; met = 0 }
  :: atomic { !lent && number < WRITES -> lent = 1; met = 0; is_lent_to[0] = IS_WRITTEN(0); is_lent_to[1] = IS_WRITTEN(1) }
  /* a copy is back */
  :: atomic { !in_sync[0] && !syncing[0] && up[0] && !writing -> syncing[0] = 1; next[0] = 0 }
  :: atomic { !in_sync[1] && !syncing[1] && up[1] && !writing -> syncing[1] = 1; next[1] = 0 }
  /* it reads itself, any of those in sync */
  :: atomic { in_sync[0] && up[0] && !writing -> assert(MEM(0, at) == value) }
  :: atomic { in_sync[1] && up[1] && !writing -> assert(MEM(1, at) == value) }
  od
}

/* Unit by unit. What the coordinator writes goes to both. */
proctype Resync() {
  byte c, u, t;
end:
  do
  :: atomic { if :: syncing[0] && up[0] -> c = 0 :: syncing[1] && up[1] -> c = 1 fi;
       u = next[c] };
     if
#ifdef NOSYNC
     :: atomic { syncing[c] && !writing -> syncing[c] = 0; in_sync[c] = 1 }
#else
     :: atomic { u == 2 && syncing[c] && next[c] == 2 -> syncing[c] = 0; in_sync[c] = 1 }
#endif
#ifdef NOHOLD
     :: atomic { u < 2 && up[c] && syncing[c] && next[c] == u && up[OTHER(c)] -> t = MEM(OTHER(c), u) };
#else
     :: atomic { u < 2 && up[c] && syncing[c] && next[c] == u && up[OTHER(c)] && !writing -> holds = 1; t = MEM(OTHER(c), u) };
#endif
        atomic { MEM(c, u) = t; if :: lent && u != at -> met = 1 :: else fi; holds = 0; next[c] = u + 1; t = 0 }
     :: atomic { !syncing[c] || next[c] != u }
     :: atomic { syncing[c] && !up[c] && !writing -> syncing[c] = 0 }
     fi;
     atomic { c = 0; u = 0 }
  od
}

proctype Member() {
  byte reads, floor, v, c;
end:
  do
  :: atomic { reads < READS -> reads++; floor = known };
#ifdef NOCLOSE
     atomic {
#else
     atomic { !writing ->
#endif
       if
       :: leased
       :: !leased -> leased = 1; told_unit = at;
#ifdef LAYALL
          told[0] = 1; told[1] = 1
#else
          told[0] = in_sync[0]; told[1] = in_sync[1]
#endif
       fi };
     if :: told[0] -> c = 0 :: told[1] -> c = 1 fi;
     v = MEM(c, told_unit);
#ifdef NOLOOK
     atomic { assert(v >= floor && v <= value); if :: v > known -> known = v :: else fi; v = 0; floor = 0 }
#else
     atomic { if :: leased -> assert(v >= floor && v <= value); if :: v > known -> known = v :: else fi :: else fi; v = 0; floor = 0 }
#endif
  :: atomic { lent && !fills && !writing && number < WRITES -> fills = 1; number++; filled = number };
     atomic { if :: is_lent_to[0] -> MEM(0, 1 - at) = filled :: else fi };
     atomic { if :: is_lent_to[1] -> MEM(1, 1 - at) = filled :: else fi };
     asks = 1
  od
}

proctype World() {
end:
  do
  :: atomic { flips < FLIPS && up[0] && up[1] -> flips++; if :: up[0] = 0 :: up[1] = 0 fi }
  :: atomic { !up[0] || !up[1] -> up[0] = 1; up[1] = 1 }
  od
}

init { atomic {
  up[0] = 1; up[1] = 1; in_sync[0] = 1; in_sync[1] = 1;
  run Coordinator(); run Resync(); run Member(); run World()
} }
