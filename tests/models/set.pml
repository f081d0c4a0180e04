/* SPDX-License-Identifier: Apache-2.0 */
/* A volume with copies, for spin: one place, one block `d` and a journal `j` that shows values of it, on N bricks; two
 * clients that take the volume over from each other; the map, with compare-and-set; links that break and come back;
 * bricks that lose their memory; replicas that are left out, of which it is noted whether they miss the block, and come back.
 * What the map says and what a client goes by are two things: a replica is wanted out, out in the map, and written until the
 * others have the mark of that; one that comes back is joining until the map has answered.
 * docs/recovery.md, "Copies", has the rules; tests/models/check runs this, and takes the rules out one by one.
 *
 * Values only grow. What must hold:
 *   - nobody reads less than was read, or acknowledged as written, before; after a place has lost its uncommitted tail,
 *     not less than a commit had covered;
 *   - whoever serves has no replica in sync whose journal shows what is not there.
 *
 * Time is a bit, lease[c]: client c may still trust what it heard of its bricks. Who waits for a lease's time takes it. */
#ifndef N
#define N 2
#endif
#ifndef TAKES
#define TAKES 3
#endif
#ifndef WRITES
#define WRITES 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FLIPS
#define FLIPS 1
#endif
#ifndef LOST      /* answers of the map */
#define LOST 0
#endif
#ifndef RECOVERED /* maps, that were lost, from the marks */
#define RECOVERED 0
#endif
#ifndef JOINS
#define JOINS 1
#endif
#ifndef FORGETS
#define FORGETS 0
#endif
#ifndef OUTSIDE   /* who is left out from the beginning */
#define OUTSIDE 0
#endif
#define NOBODY 2
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) & BIT(i)) != 0)
#define ALL (BIT(N) - 1)

/* A brick: whose session it serves, its boot, its memory, its store, and of that the mark, which is durable at once. */
typedef Brick { byte owner = NOBODY; byte session; byte boot; byte d; byte j; bit row; bit note; byte stored_d; byte stored_j; byte mark };
Brick brick[N];
bit down[2 * N];      /* links, client * N + brick */
/* The map: `holds` is the session that has the volume. */
byte version, holds, insync = ALL & ~OUTSIDE, known[N], noted;
bit waiting, tail_lost;
bit lease[2];
/* A change of it that nobody has answered: who is to be in sync, and the version that it was compared with. */
byte late, late_version;
/* What the world knows. */
byte next, seen, committed;
byte takes, writes, crashes, flips, joins, losses, lost_answers, recovered, forgets;

active proctype World() {
  byte k, top;
  do
#if LOST
  :: atomic { late != 0 && late_version == version -> insync = insync | late; noted = noted & ~late; version++; late = 0 }
#endif
#if RECOVERED
  :: atomic { recovered < RECOVERED ->    /* the map is lost, nobody has the volume, and who has the newest mark is believed */
       insync = 0; holds = 0; noted = 0; waiting = 1; tail_lost = 0; late = 0; version++; recovered++;
       for (k : 0 .. (N - 1)) {
         brick[k].owner = NOBODY;
         if
         :: insync == 0 || brick[k].mark > top -> insync = BIT(k); top = brick[k].mark
         :: else -> if :: brick[k].mark == top -> insync = insync | BIT(k) :: else fi
         fi
       };
       k = 0; top = 0 }
#endif
  :: atomic { flips < FLIPS -> select(k : 0 .. (2 * N - 1)); down[k] = !down[k]; flips++; k = 0 }
  :: atomic { crashes < CRASHES ->        /* a brick loses its memory */
       select(k : 0 .. (N - 1));
       brick[k].d = brick[k].stored_d; brick[k].j = brick[k].stored_j; brick[k].row = 0; brick[k].note = 0; brick[k].boot++;
       crashes++; k = 0 }
  :: break
  od
}

/* Whether a call of this client's session reaches brick i, and is let in; whether that is in the life that it knows. */
#ifdef NOFENCE
#define IN(i) (!down[me * N + (i)])
#else
#define IN(i) (!down[me * N + (i)] && brick[i].owner == me && brick[i].session == session)
#endif
/* Of whom changes are noted: of all of whom the map says so. */
#ifdef ENDNOTES
#define NOTES (noted & knows)
#else
#define NOTES noted
#endif
/* Whom this client may want out. */
#ifdef FAILS   /* who has failed at a call, too */
#define AWAY(i) true
#else
#define AWAY(i) !IN(i)
#endif
#define SAME(i) (brick[i].boot == boot[i])
#define LACKS(i) (!HAS(knows, i) || HAS(missed, i))
/* Whoever is written: `map`, who is in sync as far as this client knows, or out in the map and not without its telling the
 * others yet; and who is joining, in sync in the map perhaps. */
#define WRITTEN (map | joining)
#define HELD (holds == session)
#define NEXT i++; do :: i < N && !HAS(WRITTEN, i) -> i++ :: else -> break od
#define FIRST i = 255; NEXT

/* From now on it is neither written nor read. Where there is a row, or it has not committed what it has, it may miss
 * something, once it restarts; that is not noted yet. */
inline drop(i) {
  if :: HAS(map, i) -> knows = knows | BIT(i) :: else fi;
  map = map & ~BIT(i); joining = joining & ~BIT(i);
  if :: have_row || dirty -> missed = missed | (knows & BIT(i)) :: else fi
}

/* One step on the way out: out of the map, and never the last one, unless one is taken back that is still written; then the
 * others get the mark of that, and it is dropped. */
inline leave_out(i) {
#ifdef BEFOREMAP
  drop(i);
#else
  if :: HELD -> skip :: else -> goto again fi;
  if
  :: !HAS(out, i) ->
       if
#ifdef NOJOINOUT
       :: HAS(joining, i) -> drop(i)
#endif
       :: (insync & ~BIT(i)) != 0 -> insync = insync & ~BIT(i)
       :: else ->
            k = 0;
            do :: k < N && !(HAS(out & map, k) && k != i && IN(k) && SAME(k)) -> k++ :: else -> break od;
            if :: k == N -> k = 0; goto again :: else -> insync = BIT(k); out = out & ~BIT(k); known[k] = boot[k]; k = 0 fi
       fi;
       if :: HAS(WRITTEN, i) -> version++; out = out | BIT(i) :: else fi;
#ifdef EARLY
       drop(i)
#endif
  :: else ->
#ifndef NOMARK
       for (k : 0 .. (N - 1)) {
         if :: HAS(insync, k) -> if :: IN(k) -> brick[k].mark = version :: else -> goto again fi :: else fi
       };
       k = 0;
#endif
       out = out & ~BIT(i);
       if :: HAS(WRITTEN, i) -> drop(i) :: else fi
  fi
#endif
}

/* A durable brick that restarted under a client that lives gets again what it had not committed. */
inline replay(i) {
  if
  :: SAME(i) -> skip
  :: else ->
       brick[i].d = have_d; brick[i].j = have_j; brick[i].row = have_row; brick[i].note = have_note; boot[i] = brick[i].boot;
       if :: HELD -> known[i] = boot[i]; version++ :: else -> goto again fi
  fi
}

/* `what` on all that are written, one after the other; one that does not answer is left out, for which it waits. */
#define ON_ALL(what) \
  atomic { FIRST }; \
  do \
  :: atomic { i < N -> if :: IN(i) -> replay(i); what; NEXT :: else -> leave_out(i); if :: HAS(WRITTEN, i) -> skip :: else -> NEXT fi fi } \
  :: atomic { i >= N -> i = 0; break } \
  od
/* The same while a mount settles: with one that does not answer, or has restarted, it begins anew. */
#define SETTLE(begin, what) \
  atomic { i = begin; if :: !HAS(map, i) -> NEXT :: else fi }; \
  do \
  :: atomic { i < N -> if :: IN(i) && SAME(i) -> what :: else -> goto again fi; NEXT } \
  :: atomic { i >= N -> i = 0; break } \
  od

proctype Client(byte me) {
  byte session, mine, map, there, fresh, first, i, k, v, have_d, have_j, before, boot[N];
  byte knows, missed;   /* replicas that are left out: of which it is known what they miss; which miss the block */
  byte out, joining;    /* replicas that are written: out in the map, of which the others have no mark; told that they are in sync */
  bit touched, have_row, have_note, dirty, lost;
again:
  atomic {
    if :: takes < TAKES -> takes++ :: else -> goto done fi;
    session = takes; map = insync; mine = version;
    there = 0; fresh = 0; first = 0; lost = 0; have_row = 0; have_d = 0; have_j = 0; touched = 0; v = 0; before = 0;
    knows = 0; missed = 0; have_note = 0; dirty = 0; out = 0; joining = 0; k = 0;
    FIRST
  };
  /* Open, and so fence, every replica in sync; one that does not answer is done without. */
  do
  :: atomic { i < N ->
       if
       :: down[me * N + i] -> skip
       :: else ->
            brick[i].owner = me; brick[i].session = session;
            boot[i] = brick[i].boot; there = there | BIT(i);
            if :: brick[i].boot == known[i] -> fresh = fresh | BIT(i) :: else fi
       fi;
       NEXT }
  :: atomic { i >= N -> i = 0; break }
  od;
  /* Which are believed: those whose brick has not restarted; if all have, the first. Then the claim. */
  atomic {
    if :: there == 0 || version != mine -> goto again :: else fi;
    do :: !HAS(there, first) -> first++ :: else -> break od;
#ifndef NOBOOT
    if :: fresh != 0 -> there = fresh :: else -> lost = 1; there = BIT(first) fi;
#endif
    first = 0;
    do :: !HAS(there, first) -> first++ :: else -> break od;
#ifdef NOCARRY
    waiting = 0;
#endif
    if :: there != insync -> waiting = 1 :: else fi;
    if :: lost -> tail_lost = 1 :: else fi;
#ifndef OLDNOTES
    if :: lost -> noted = 0 :: else fi;
#endif
    knows = noted & ~there;
    holds = session; insync = there; map = there; version++; mine = 0; lease[me] = 1;
    for (i : 0 .. (N - 1)) { if :: HAS(there, i) -> known[i] = boot[i] :: else fi };
    there = 0; fresh = 0
  };
  /* Without a replica that the other client may still read nothing is acknowledged before its lease has run out. Who
   * dies meanwhile leaves that to the next. */
  if
  :: goto again                                     /* it dies */
  :: atomic {
       if :: HELD -> skip :: else -> goto again fi;
#ifndef NOWAIT
       if :: waiting -> lease[1 - me] = 0 :: else fi;
#endif
       if :: waiting -> waiting = 0; version++ :: else fi;
       if :: tail_lost -> seen = committed; losses++; tail_lost = 0 :: else fi
     };
  fi;
  /* Settle: all equal to the first one, where any of them has a row; stage after stage. */
  SETTLE(0, touched = touched | brick[i].row; have_note = have_note | brick[i].note);
  atomic { if :: IN(first) && SAME(first) -> have_d = brick[first].d; brick[first].stored_d = have_d :: else -> goto again fi };
  atomic { if :: IN(first) && SAME(first) -> have_j = brick[first].j; brick[first].stored_j = have_j :: else -> goto again fi };
#ifdef NOSETTLE
  touched = 0;
#endif
  /* What has a row is missed, too; so it is noted before the row goes. */
  atomic {
#ifndef NOROWNOTE
    have_note = have_note | touched;
#endif
    if :: knows == 0 -> have_note = 0 :: else fi;
    if :: have_note -> missed = knows :: else fi
  };
#ifdef ATONCE
  SETTLE(first + 1, if :: touched -> brick[i].j = have_j; brick[i].stored_j = have_j :: else fi);
#endif
  SETTLE(first + 1, if :: touched -> brick[i].d = have_d :: else fi; brick[i].stored_d = brick[i].d);
  SETTLE(first + 1, if :: touched -> brick[i].j = have_j :: else fi; brick[i].stored_j = brick[i].j);
  SETTLE(0, brick[i].note = have_note; brick[i].row = 0; brick[i].mark = version);
  touched = 0;

  /* Serve. */
  do
  :: atomic { writes < WRITES -> writes++; next++; v = next; before = losses };
     /* A row, the block, the journal; then it is acknowledged. */
#ifndef NOROW
     ON_ALL(brick[i].row = 1);
     have_row = 1;
#endif
     ON_ALL(brick[i].d = v);
#ifndef NODIRTY
     dirty = 1;
#endif
     have_d = v;
     ON_ALL(brick[i].j = v);
     atomic { have_j = v; missed = missed | (knows & ~map) };
#ifndef NONOTE
     if :: (NOTES & ~map) != 0 && !have_note -> ON_ALL(brick[i].note = 1); have_note = 1 :: else -> skip fi;
#endif
     atomic { if :: v > seen && losses == before -> seen = v :: else fi; v = 0; before = 0 }
#ifndef BUSY   /* a bound of searches: rows stay, and nobody is left out but by whoever wants something of him */
  :: have_row -> ON_ALL(brick[i].row = 0); have_row = 0     /* others need its place */
  :: atomic { WRITTEN == ALL || out != 0 ->         /* one is away, or to be left out, and nobody wants anything of it */
       select(i : 0 .. (N - 1));
       if :: HAS(out | joining, i) || (HAS(map, i) && AWAY(i)) -> leave_out(i) :: else fi; i = 0 }
#endif
  :: atomic { (knows & ~map & ~noted & ~insync) != 0 && HELD -> fresh = knows & ~map & ~noted & ~insync };
     /* What was missed until now is noted; then the map says so. */
#ifndef LATENOTE
     if :: (missed & fresh) != 0 && !have_note -> ON_ALL(brick[i].note = 1); have_note = 1 :: else -> skip fi;
#endif
     atomic { if :: HELD -> noted = noted | fresh; version++; fresh = 0 :: else -> goto again fi }
#if FORGETS
  :: atomic { forgets < FORGETS && (knows & noted & ~map) != 0 ->    /* one gets everything when it is back: it has lost something */
       forgets++; missed = missed & ~(knows & noted & ~map); knows = knows & ~(noted & ~map) }
  :: atomic { (noted & ~knows & ~map) != 0 && HELD -> noted = noted & (knows | map); version++ }
#endif
  :: have_j > committed ->                          /* fsync: the block, then the journal, on all */
     ON_ALL(brick[i].stored_d = brick[i].d);
     ON_ALL(brick[i].stored_j = brick[i].j);
     atomic { dirty = 0; if :: have_j > committed -> committed = have_j :: else fi }
  :: atomic { true ->                               /* a read, of any of them, that counts while the lease lasts */
       select(i : 0 .. (N - 1));
       if :: HAS(map, i) && IN(i) -> skip :: else -> goto again fi;
       replay(i);
#ifndef NOLEASE
       if :: lease[me] -> skip :: else -> goto again fi;
#endif
       assert(brick[i].d >= seen);
       assert(brick[i].j <= brick[i].d);
       seen = brick[i].d; i = 0 }
#if LOST || RECOVERED
  :: atomic { !lease[me] ->                         /* all that may be believed are heard of */
       k = 0;
#ifdef NOTHEARD
       do :: k < N && (!HAS(map, k) || IN(k)) -> k++ :: else -> break od;
#else
       do :: k < N && (!HAS(WRITTEN, k) || IN(k)) -> k++ :: else -> break od;
#endif
       if :: k == N -> lease[me] = 1 :: else fi; k = 0 }
#endif
  :: atomic { joins < JOINS && WRITTEN != ALL && HELD ->   /* one comes back */
       joins++; i = 0;
       do :: HAS(WRITTEN, i) -> i++ :: else -> break od;
       if :: !down[me * N + i] && IN(first) && HAS(map, first) -> skip :: else -> goto again fi;
       replay(first);
       brick[i].owner = me; brick[i].session = session;
       boot[i] = brick[i].boot };
#ifdef MARKFIRST
     atomic { if :: IN(i) && SAME(i) -> brick[i].mark = version :: else -> goto again fi };
#endif
     atomic { if :: !down[me * N + i] && SAME(i) -> brick[i].row = have_row; brick[i].note = have_note;
                      if :: LACKS(i) -> brick[i].d = have_d :: else fi
                 :: else -> goto again fi };
     /* With all that it missed it is told so by its mark, and written from now on; then the map is asked. */
     atomic { if :: !down[me * N + i] && SAME(i) -> if :: LACKS(i) -> brick[i].j = have_j :: else fi;
                      brick[i].stored_d = brick[i].d; brick[i].stored_j = brick[i].j; brick[i].mark = version;
                      joining = BIT(i); i = 0
                 :: else -> goto again fi }
  :: atomic { joining != 0 && (out & joining) == 0 ->
       do :: !HAS(joining, i) -> i++ :: else -> break od;
       if
       :: HELD -> insync = insync | BIT(i); noted = noted & ~BIT(i); map = map | BIT(i); known[i] = boot[i];
            version++; knows = knows & ~BIT(i); missed = missed & ~BIT(i); joining = 0; i = 0
       :: else -> goto again
       fi }
#if LOST
  :: atomic { joining != 0 && (out & joining) == 0 && lost_answers < LOST && HELD ->     /* the answer is lost */
       lost_answers++;
       do :: !HAS(joining, i) -> i++ :: else -> break od;
       if
       :: insync = insync | BIT(i); noted = noted & ~BIT(i); known[i] = boot[i]; version++
       :: late = BIT(i); late_version = version
       fi;
       i = 0 }
#endif
  :: goto again                                     /* it dies, and comes again */
  od;
done: skip
}

init { atomic { run Client(0); run Client(1) } }
