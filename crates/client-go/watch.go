package holdfast

import "context"

// A Change is a change of the tree or of a lock. Kind is created, changed or deleted for a znode, and granted or lost for a
// lock.
type Change struct {
	Revision int64  `json:"revision"`
	Kind     string `json:"kind"`
	Path     string `json:"path"`
	Lock     string `json:"lock"`
	Token    int64  `json:"token"`
	Session  string `json:"session"`
	// Gap: the cluster no longer has the changes up to the revision. Read the state again.
	Gap bool `json:"-"`
}

// A Watch receives the changes of znodes.
type Watch struct {
	changes chan Change
	err     error
}

// Watch watches the znodes whose paths begin with a prefix, from now on, until the context ends. The znode of lock NAME is
// /locks/NAME. The client continues at another node when one fails, and can then deliver the changes of one revision twice.
func (c *Client) Watch(ctx context.Context, prefix string) (*Watch, error) {
	var present struct {
		Revision int64 `json:"revision"`
	}
	q := query{}.with(paramPrefix, prefix)
	if err := c.calls.do(ctx, get("/v1/watch", q.with(paramWait, "0s")), &present, "revision"); err != nil {
		return nil, err
	}
	return c.WatchSince(ctx, prefix, present.Revision), nil
}

// WatchSince is as Watch, with the changes after a revision.
func (c *Client) WatchSince(ctx context.Context, prefix string, revision int64) *Watch {
	w := &Watch{changes: make(chan Change)}
	stream := eventStream{calls: c.calls, call: get("/v1/watch", query{}.with(paramPrefix, prefix)), last: revision, node: -1}
	go func() {
		defer close(w.changes)
		for {
			err := stream.run(ctx, func(event serverEvent) error { return w.receive(ctx, event, &stream) })
			problem := rejectedWith(err, CodeRevisionCompacted)
			if problem == nil {
				w.err = err
				return
			}
			if w.err = w.gap(ctx, problem.RestartFrom, &stream); w.err != nil {
				return
			}
		}
	}()
	return w
}

// Changes returns the changes. The channel is closed at the end of the context, and when the cluster rejects the watch.
func (w *Watch) Changes() <-chan Change { return w.changes }

// Err returns why Changes was closed.
func (w *Watch) Err() error { return w.err }

func (w *Watch) receive(ctx context.Context, event serverEvent, stream *eventStream) error {
	switch event.name {
	case "bookmark":
		return nil
	case "compacted":
		var problem Problem
		if err := decode([]byte(event.data), &problem); err != nil {
			return err
		}
		return w.gap(ctx, problem.RestartFrom, stream)
	}
	var change Change
	if err := decode([]byte(event.data), &change); err != nil {
		return err
	}
	return w.deliver(ctx, change)
}

func (w *Watch) gap(ctx context.Context, restartFrom int64, stream *eventStream) error {
	stream.last = restartFrom
	return w.deliver(ctx, Change{Gap: true, Revision: restartFrom})
}

func (w *Watch) deliver(ctx context.Context, change Change) error {
	select {
	case w.changes <- change:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
