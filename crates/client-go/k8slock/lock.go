// Package k8slock lets client-go's LeaderElector elect its leader with a holdfast lock instead of a Lease. An operator
// replaces the line that creates its resourcelock, and gets a fencing token for its writes:
//
//	lock := k8slock.New(hf, namespace, "my-operator", identity)
//
// holdfast decides who leads: a candidate whose clock runs fast, or that does not see a renewal, cannot take a held lock.
package k8slock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// TokenAnnotation is the annotation with the leader's fencing token in the raw record that Get returns.
const TokenAnnotation = "holdfast/fencing-token"

var resource = schema.GroupResource{Resource: "holdfast locks"}

var _ resourcelock.Interface = (*Lock)(nil)

// A Lock is the lock k8s/NAMESPACE/NAME of one candidate. Its value is the record of the election.
type Lock struct {
	client         *holdfast.Client
	name, identity string

	mu    sync.Mutex
	guard *holdfast.Guard
	// refusedUntil: the elector may still lead by its clock after a loss. It gets no new hold before, so that its work
	// cannot go on with a new token.
	refusedUntil time.Time
}

// New returns the lock of a candidate. The time-to-live of its session is the LeaseDuration of the elector.
func New(client *holdfast.Client, namespace, name, identity string) *Lock {
	return &Lock{client: client, name: "k8s/" + namespace + "/" + name, identity: identity}
}

// Token returns the fencing token of the leadership, or 0 while this candidate does not lead. Read it once in
// OnStartedLeading, and send it with each write.
func (l *Lock) Token() int64 {
	if guard := l.Guard(); guard != nil {
		return guard.Token()
	}
	return 0
}

// Guard returns the guard of the leadership, or nil while this candidate does not lead. The context of the guard is
// cancelled at the loss. The elector cancels its context up to RenewDeadline later.
func (l *Lock) Guard() *holdfast.Guard {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guard == nil || l.guard.Ensure() != nil {
		return nil
	}
	return l.guard
}

// Get returns the record of the present leader. A free lock is not found, so the elector calls Create.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	state, err := l.client.LockState(ctx, l.name)
	if err != nil {
		return nil, nil, err
	}
	if len(state.Holders) == 0 {
		return nil, nil, apierrors.NewNotFound(resource, l.name)
	}
	holder := state.Holders[0]
	var record resourcelock.LeaderElectionRecord
	if json.Unmarshal([]byte(holder.Value), &record) != nil || record.HolderIdentity == "" {
		// A caller without an elector holds the lock.
		record = resourcelock.LeaderElectionRecord{HolderIdentity: holder.Session}
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{TokenAnnotation: strconv.FormatInt(holder.Token, 10)}},
		"spec":     record,
	})
	return &record, raw, err
}

// Create acquires the lock if it is free.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update renews the leadership and its record. It acquires a free lock for a candidate, and releases the lock if the record
// has no holder. It never acquires the lock again for a leader that has lost it.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity == "" {
		return l.release()
	}
	value, err := json.Marshal(record)
	if err != nil {
		return err
	}
	lease := time.Duration(record.LeaseDurationSeconds) * time.Second
	if l.guard == nil {
		return l.acquire(ctx, string(value), lease)
	}
	err = l.guard.SetValue(ctx, string(value))
	var lost *holdfast.LostError
	if errors.As(err, &lost) {
		l.refusedUntil = time.Now().Add(lease)
		l.release()
	}
	return err
}

func (l *Lock) acquire(ctx context.Context, value string, lease time.Duration) error {
	if left := time.Until(l.refusedUntil); left > 0 {
		return fmt.Errorf("%s: the leadership was lost, and a new one begins in %v at the earliest", l.Describe(), left.Round(time.Second))
	}
	// The hold outlives the call, which has the deadline of one renewal.
	acquireCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, stop)()
	_, guard, err := l.client.TryLock(acquireCtx, l.name, holdfast.TTL(lease), holdfast.Value(value))
	var busy *holdfast.BusyError
	if errors.As(err, &busy) {
		return apierrors.NewConflict(resource, l.name, err)
	}
	if err != nil {
		return err
	}
	l.guard = guard
	return nil
}

// release releases the hold. The candidate may acquire the lock again.
func (l *Lock) release() error {
	guard := l.guard
	l.guard = nil
	if guard == nil {
		l.refusedUntil = time.Time{}
		return nil
	}
	err := guard.Release()
	var lost *holdfast.LostError
	if errors.As(err, &lost) {
		return nil
	}
	return err
}

// RecordEvent does nothing: the history of the lock has each leader.
func (l *Lock) RecordEvent(string) {}

// Identity returns the identity of the candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the name of the lock.
func (l *Lock) Describe() string { return "holdfast lock " + l.name }
