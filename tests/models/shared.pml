/* SPDX-License-Identifier: Apache-2.0 */
/* A volume that several machines have mounted, for spin: a value in a file, a brick, two nodes of which one coordinates,
 * and two members that change the value through the coordinator, read it, and keep it under a lease. Each change adds
 * one, so one done twice, or lost after it was answered, shows. The coordinator may die, be cut off from the brick and
 * come back late, or hand the volume over, also back. docs/shared.md; tests/models/check_shared runs this, and takes the
 * rules out one by one, as they are and with -D:
 *
 *   NORECALL     a change waits until nobody else keeps what it changes
 *   NOLEASEWAIT  ... and if a member cannot be asked, until its lease has run out
 *   NOCLOSE      ... and meanwhile nothing is granted
 *   NOOWNDROP    who asks for a change has dropped what it keeps of that
 *   NOLEASECHECK a member that has not heard of its coordinator for a lease's time uses nothing that it keeps
 *   NOJOURNAL    an operation is answered when its transaction is on the brick
 *   NOREADWAIT   ... and so is a read that shows it
 *   NOREPLY      the transaction says whose operation it was, so one that is sent again is not done again
 *   NOFENCE      who takes over fences the former coordinator before he reads the journal
 *   NOHOLDERWAIT ... and waits until its lease has run out
 *   NOCONFIRM    a coordinator answers reads only if its own lease holds, looked at behind the read
 *   NOGRACE      a new coordinator changes nothing before each member has come to it, or its lease has run out
 *   NOORDER      a recall does not overtake the grant that it recalls
 *   NOSTOP       who hands the volume over serves nobody any more when he lets go of it
 *
 * A member is the number of its process, a session of it never ends: tests/models/shared_locks.pml has that. */
#ifndef OPS0
#define OPS0 1
#endif
#ifndef OPS1
#define OPS1 1
#endif
#ifndef READS0
#define READS0 1
#endif
#ifndef READS1
#define READS1 2
#endif
#ifndef FLIPS
#define FLIPS 1        /* of links between a node and a member */
#endif
#ifndef CRASHES
#define CRASHES 1      /* deaths of a coordinator, or links to the brick that break */
#endif
#ifndef HANDOVERS
#define HANDOVERS 1
#endif
#ifndef TAKES
#define TAKES 2
#endif
typedef Node {
  byte epoch, val;
  bit serving, dead, lease, cut, busy, dirty;
  byte seq[2], req[2], ans[2];           /* of each member: its last operation that was done; its request; the answer */
  bit cap[2], flight[2], down[2]         /* it may keep something; which is on its way; the link is broken */
}
typedef Kept { bit there, lease; byte val, from, epoch }
byte b_epoch = 1, b_val, b_seq[2], holder; bit b_free;   /* the brick: whom it serves, if anybody; and its journal */
Node node[2];
Kept kept[2];
byte issued, acks, seen, flips, takes, crashes, handovers;
#define OURS(n) (b_epoch == node[n].epoch)
#define GONE(n) (node[n].dead || node[n].cut)

active proctype World() {
  do
  :: atomic { flips < FLIPS -> flips++;
       if
       :: node[0].down[0] = !node[0].down[0]
       :: node[0].down[1] = !node[0].down[1]
       :: node[1].down[0] = !node[1].down[0]
       :: node[1].down[1] = !node[1].down[1]
       fi }
  /* who coordinates dies, or is cut off from the brick alone */
  :: atomic { crashes < CRASHES && node[holder].serving -> crashes++;
       if :: node[holder].dead = 1; node[holder].serving = 0 :: node[holder].cut = 1 fi }
  /* ... and finds it again, too late: what it sends now must not land */
  :: atomic { node[0].cut && !node[0].lease && !OURS(0) -> node[0].cut = 0 }
  :: atomic { node[1].cut && !node[1].lease && !OURS(1) -> node[1].cut = 0 }
  /* leases run out: a coordinator's, and what a member keeps */
  :: atomic { node[0].lease && (GONE(0) || !OURS(0)) -> node[0].lease = 0 }
  :: atomic { node[1].lease && (GONE(1) || !OURS(1)) -> node[1].lease = 0 }
  :: atomic { kept[0].lease && (node[kept[0].from].down[0] || node[kept[0].from].dead || !node[kept[0].from].lease) -> kept[0].lease = 0 }
  :: atomic { kept[1].lease && (node[kept[1].from].down[1] || node[kept[1].from].dead || !node[kept[1].from].lease) -> kept[1].lease = 0 }
  :: timeout -> break
  od
}

/* From the other member. */
inline recall() {
  if
  :: node[n].cap[k] ->
     do
#ifdef NOORDER
     :: atomic { !node[n].down[k] -> if :: kept[k].from == n -> kept[k].there = 0 :: else fi; node[n].cap[k] = 0 }; break
#else
     :: atomic { !node[n].down[k] && !node[n].flight[k] -> if :: kept[k].from == n -> kept[k].there = 0 :: else fi; node[n].cap[k] = 0 }; break
#endif
#ifdef NOLEASEWAIT
     :: node[n].down[k] -> node[n].cap[k] = 0; break
#else
     :: atomic { node[n].down[k] && !node[n].flight[k] && !(kept[k].lease && kept[k].from == n) -> node[n].cap[k] = 0 }; break
#endif
     :: node[n].dead -> goto gone
     od
  :: else
  fi
}

proctype Coordinate(byte n) {
  byte m, k, s, former;
  bit was_free;
  if :: n == 0 -> atomic { node[0].epoch = 1; node[0].serving = 1; node[0].lease = 1 } :: else fi;
end:
  do
  :: node[n].dead -> break
  :: atomic { node[n].serving && (node[n].req[0] != 0 || node[n].req[1] != 0) ->
       if :: node[n].req[0] != 0 -> m = 0 :: node[n].req[1] != 0 -> m = 1 fi;
       k = 1 - m; s = node[n].req[m] };
     if
     :: node[n].seq[m] >= s -> skip      /* it has been done */
     :: else ->
#ifndef NORECALL
        node[n].busy = 1;
        recall();
#endif
        atomic { if :: node[n].dead -> goto gone :: else fi;
          node[n].val++; node[n].seq[m] = s; node[n].dirty = 1; node[n].busy = 0;
          assert(node[n].val <= issued || !OURS(n)) }
     fi;
#ifdef NOJOURNAL
     atomic { if :: node[n].dead -> goto gone :: else fi; node[n].ans[m] = s; node[n].req[m] = 0 };
#endif
     atomic { node[n].dead || !node[n].cut;        /* onto the brick: it is let in only if it has not been fenced */
       if
       :: node[n].dead -> goto gone
#ifdef NOFENCE
       :: else -> b_val = node[n].val; b_seq[0] = node[n].seq[0]; b_seq[1] = node[n].seq[1]; node[n].dirty = 0
#else
       :: !node[n].dead && OURS(n) -> b_val = node[n].val; b_seq[0] = node[n].seq[0]; b_seq[1] = node[n].seq[1]; node[n].dirty = 0
       :: !node[n].dead && !OURS(n) -> node[n].serving = 0; node[n].dirty = 0; node[n].req[0] = 0; node[n].req[1] = 0; goto end
#endif
       fi };
#ifndef NOJOURNAL
     atomic { if :: node[n].dead -> goto gone :: else fi; node[n].ans[m] = s; node[n].req[m] = 0 }
#endif
  /* it hands over: all is on the brick, and it knows nothing any more */
  :: atomic { node[n].serving && !node[n].cut && OURS(n) && handovers < HANDOVERS -> handovers++;
#ifndef NOSTOP
       node[n].serving = 0; node[n].lease = 0; node[n].req[0] = 0; node[n].req[1] = 0;
#endif
       b_free = 1 }
  /* it takes what nobody has, or whose holder the brick does not hear of */
  :: atomic { !node[n].serving && !GONE(n) && takes < TAKES && (b_free || (holder != n && GONE(holder))) ->
       takes++; was_free = b_free; former = holder;
       b_epoch++; node[n].epoch = b_epoch; b_free = 0; holder = n; node[n].lease = 1 };   /* the former one is fenced */
#ifndef NOHOLDERWAIT
     (was_free || !node[former].lease || node[n].dead);
#endif
     atomic { node[n].val = b_val; node[n].seq[0] = b_seq[0]; node[n].seq[1] = b_seq[1]; node[n].dirty = 0; node[n].busy = 0;
#ifdef NOREPLY
       node[n].seq[0] = 0; node[n].seq[1] = 0;
#endif
       node[n].cap[0] = 0; node[n].cap[1] = 0; m = 0 };
#ifndef NOGRACE
     do
     :: m == 2 -> break
     :: node[n].dead -> goto gone
     /* it has come, and keeps nothing of the former one's */
     :: atomic { m < 2 && !node[n].down[m] && node[n].epoch >= kept[m].epoch ->
          kept[m].there = 0; kept[m].from = n; kept[m].epoch = node[n].epoch; kept[m].lease = 1; m++ }
     :: atomic { m < 2 && node[n].down[m] && !kept[m].lease -> m++ }
     :: atomic { m < 2 && node[n].epoch < kept[m].epoch -> m++ }         /* it is another's already */
     od;
#endif
     atomic { if :: node[n].dead -> goto gone :: else -> node[n].serving = 1 fi }
  od;
gone: skip
}

proctype Member(byte m; byte ops; byte reads) {
  byte n, v, floor, i, r, epoch;
  bit granted;
  do
  :: i < ops ->
     atomic { i++; issued++;
#ifndef NOOWNDROP
       kept[m].there = 0
#endif
     };
again:
     if :: n = 0 :: n = 1 fi;
     do
     :: atomic { !node[n].down[m] && node[n].serving && node[n].req[m] == 0 && node[n].ans[m] != i -> node[n].req[m] = i }
     :: atomic { !node[n].down[m] && node[n].ans[m] == i -> acks++; if :: acks > seen -> seen = acks :: else fi }; break
     :: (node[n].down[m] || !node[n].serving) && node[n].ans[m] != i -> goto again    /* given up, whether it was done or not */
     :: node[n].down[m] && node[n].ans[m] == i -> goto again
     od
  :: r < reads ->
     r++; floor = seen;
     if
#ifdef NOLEASECHECK
     :: atomic { kept[m].there -> v = kept[m].val }; assert(v >= floor)
#else
     :: atomic { kept[m].there && kept[m].lease -> v = kept[m].val }; assert(v >= floor)
#endif
     :: if :: n = 0 :: n = 1 fi;
        if
#ifdef NOREADWAIT
        :: atomic { !node[n].down[m] && node[n].serving ->
#else
        :: atomic { !node[n].down[m] && node[n].serving && !node[n].dirty ->
#endif
             v = node[n].val; epoch = node[n].epoch;
#ifdef NOCLOSE
             granted = 1;
#else
             granted = !node[n].busy;
#endif
             if :: granted -> node[n].cap[m] = 1; node[n].flight[m] = 1 :: else fi };
#ifndef NOCONFIRM
           if
           :: node[n].lease
           :: !node[n].lease -> node[n].flight[m] = 0; goto next
           fi;
#endif
           atomic {
             node[n].flight[m] = 0;
             if
             /* no connection outlives who has served it */
             :: node[n].down[m] || node[n].dead || node[n].epoch != epoch || epoch < kept[m].epoch -> goto next
             :: else ->
                if
                :: granted -> kept[m].there = 1; kept[m].val = v; kept[m].from = n; kept[m].lease = node[n].lease; kept[m].epoch = node[n].epoch
                :: else
                fi
             fi };
           assert(v >= floor && v <= issued);
           atomic { if :: v > seen -> seen = v :: else fi }
        :: else
        fi
     fi;
next: skip
  :: i == ops && r == reads -> break
  od
}

init { atomic { run Coordinate(0); run Coordinate(1); run Member(0, OPS0, READS0); run Member(1, OPS1, READS1) } }
