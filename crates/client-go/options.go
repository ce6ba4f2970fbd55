package holdfast

import (
	"strconv"
	"strings"
	"time"
)

// A Mode is the mode of a lock.
type Mode string

// The modes of a lock: a single holder; any number of shared holders; as shared, with the right to become exclusive.
const (
	Exclusive  Mode = "exclusive"
	Shared     Mode = "shared"
	Upgradable Mode = "upgradable"
)

func (m Mode) strength() int {
	return map[Mode]int{Shared: 1, Upgradable: 2, Exclusive: 3}[m]
}

// A LockOption is an option of an acquire.
type LockOption func(*lockOptions)

type lockOptions struct {
	wait            *time.Duration // nil waits without bound
	mode            Mode
	permits, limit  int
	priority        int
	owner           string
	reentrant       *bool
	queueMax        int
	maxHold         time.Duration
	minHold         time.Duration
	value           string
	progressTimeout time.Duration
	ttl             time.Duration
	shards          int
	shard           *int
}

// Wait bounds the time in the queue. With 0 the lock is acquired only if it is free. Without this option, an acquire waits
// until its context ends.
func Wait(d time.Duration) LockOption { return func(o *lockOptions) { o.wait = &d } }

// InMode acquires the lock in a mode; by default Exclusive.
func InMode(mode Mode) LockOption { return func(o *lockOptions) { o.mode = mode } }

// Permits acquires n permits of a semaphore that has limit permits in all. All callers of one semaphore send the same limit.
func Permits(n, limit int) LockOption {
	return func(o *lockOptions) { o.permits, o.limit = n, limit }
}

// Priority is the priority in the queue, 0 to 9. One level is worth 10 s of waiting unless the policy of the lock differs.
func Priority(level int) LockOption { return func(o *lockOptions) { o.priority = level } }

// Owner names the owner within the session. All acquires of one owner share the hold; by default each guard has another
// owner, so two guards of one client exclude each other.
func Owner(name string) LockOption { return func(o *lockOptions) { o.owner = name } }

// Reentrant(false) rejects another acquire of the same Owner. Reentrant(true) also enters the hold that the owner has in a
// semaphore, with the same token.
func Reentrant(isReentrant bool) LockOption {
	return func(o *lockOptions) { o.reentrant = &isReentrant }
}

// QueueMax rejects the acquire if n callers wait already.
func QueueMax(n int) LockOption { return func(o *lockOptions) { o.queueMax = n } }

// MaxHold ends the hold this long after its grant, despite renewals.
func MaxHold(d time.Duration) LockOption { return func(o *lockOptions) { o.maxHold = d } }

// MinHold delays the next grant of the lock until this long after the grant, also after an earlier release.
func MinHold(d time.Duration) LockOption { return func(o *lockOptions) { o.minHold = d } }

// Value is a text that readers of the lock see with the holder or waiter; at most 4,096 bytes.
func Value(text string) LockOption { return func(o *lockOptions) { o.value = text } }

// ProgressTimeout releases the lock when the work does not call ReportProgress for this long.
func ProgressTimeout(d time.Duration) LockOption {
	return func(o *lockOptions) { o.progressTimeout = d }
}

// TTL is the time after which the lock of a dead client is free, 1 s to 24 h; by default the TTL of the client.
func TTL(d time.Duration) LockOption { return func(o *lockOptions) { o.ttl = d } }

// Shards acquires one of n shards of a sharded lock, each of which is a separate lock. The cluster selects the shard that
// the owner holds, otherwise a free one, otherwise the one with the shortest queue. The first acquire sets the number.
func Shards(n int) LockOption { return func(o *lockOptions) { o.shards = n } }

// Shard acquires this shard of a sharded lock, counted from 0. Without Shards, the number of shards must exist.
func Shard(number int) LockOption { return func(o *lockOptions) { o.shard = &number } }

func newLockOptions(options []LockOption) lockOptions {
	o := lockOptions{mode: Exclusive}
	for _, option := range options {
		option(&o)
	}
	return o
}

// check rejects options that the cluster would reject after a wait, or that have no meaning for several locks.
func (o *lockOptions) check(locks int) error {
	switch {
	case o.mode.strength() == 0:
		return invalid("there is no mode %q", o.mode)
	case o.wait != nil && *o.wait < 0:
		return invalid("a wait is not negative: %v", *o.wait)
	case o.permits < 0 || o.limit < 0 || o.queueMax < 0 || o.shards < 0 || o.shard != nil && *o.shard < 0:
		return invalid("numbers of permits, waiters and shards are not negative")
	case o.priority < 0 || o.priority > 9:
		return invalid("a priority is 0 to 9, and not %d", o.priority)
	case o.maxHold < 0 || o.minHold < 0 || o.progressTimeout < 0:
		return invalid("a duration is not negative")
	case len(o.owner) > 128 || strings.ContainsAny(o.owner, "/ \t\r\n"):
		return invalid("an owner has 1 to 128 bytes without '/' and white space: %q", o.owner)
	case len(o.value) > 4096:
		return invalid("a value has at most 4096 bytes, and this one has %d", len(o.value))
	}
	only := o.permits != 0 || o.limit != 0 || o.priority != 0 || o.reentrant != nil || o.minHold != 0 || o.value != "" ||
		o.mode == Upgradable || o.shards != 0 || o.shard != nil
	if locks > 1 && only {
		return invalid("several locks at once have only the modes Exclusive and Shared, and the options Wait, Owner, QueueMax, " +
			"MaxHold, ProgressTimeout and TTL")
	}
	return nil
}

// until returns the end of the wait that begins now; zero without a bound.
func (o *lockOptions) until() time.Time {
	if o.wait == nil {
		return time.Time{}
	}
	return time.Now().Add(*o.wait)
}

// query returns the parameters of an acquire.
func (o *lockOptions) query() query {
	q := query{}.withNumber(paramPermits, int64(o.permits)).withNumber(paramLimit, int64(o.limit)).
		withNumber("priority", int64(o.priority)).withNumber(paramQueueMax, int64(o.queueMax)).
		withDuration("max_hold", o.maxHold).withDuration(paramMinHold, o.minHold).withText(paramValue, o.value).
		withNumber(paramShards, int64(o.shards))
	if o.shard != nil {
		q = q.with(paramShard, strconv.Itoa(*o.shard))
	}
	if o.mode != Exclusive {
		q = q.with(paramMode, string(o.mode))
	}
	if o.reentrant != nil {
		q = q.with(paramReentrant, strconv.FormatBool(*o.reentrant))
	}
	return q
}
