package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// groupPage is the number of members in one page of a list.
const groupPage = 1000

// A Group has members, each with a value. A membership is the ephemeral znode /groups/NAME/SESSION, so it ends with the
// session.
type Group struct {
	client *Client
	name   string
}

// Group returns the group of a name.
func (c *Client) Group(name string) *Group { return &Group{c, name} }

func (g *Group) directory() string { return "/groups/" + g.name }

// A Membership is the membership of the client's session in a group.
type Membership struct {
	session *session
	path    string

	mu     sync.Mutex
	isOver bool
}

// Join joins with a value, such as an address. The session of a client is a member at most once: joining again replaces the
// value.
func (g *Group) Join(ctx context.Context, value string) (*Membership, error) {
	if err := checkName("a group", g.name); err != nil {
		return nil, err
	}
	s, err := g.client.session(ctx, 0)
	if err != nil {
		return nil, err
	}
	m := &Membership{session: s, path: g.directory() + "/" + s.name}
	if err := m.write(ctx, value); err != nil {
		if ctx.Err() != nil || isUnclear(err) {
			m.deleteInBackground()
		}
		s.leave()
		return nil, err
	}
	return m, nil
}

// Session returns the name of the member's session.
func (m *Membership) Session() string { return m.session.name }

// Ensure returns nil if the session certainly lives, and otherwise a *LostError: then join again.
func (m *Membership) Ensure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isOver {
		return &LostError{Cause: CauseSessionEnded, Reason: "the member has left"}
	}
	if m.session.isAlive() {
		return nil
	}
	return m.session.loss()
}

// SetValue replaces the value.
func (m *Membership) SetValue(ctx context.Context, value string) error {
	if err := m.Ensure(); err != nil {
		return err
	}
	return m.write(ctx, value)
}

// Leave leaves the group. If no node answers before the end of ctx, or another server answers, the client continues in the
// background, or the membership ends with the session. A repeated call returns nil.
func (m *Membership) Leave(ctx context.Context) error {
	m.mu.Lock()
	wasOver := m.isOver
	m.isOver = true
	m.mu.Unlock()
	if wasOver {
		return nil
	}
	defer m.session.leave()
	if !m.session.isAlive() {
		return nil
	}
	err := m.delete(ctx)
	if err != nil && ctx.Err() != nil || isUnclear(err) {
		m.deleteInBackground()
	}
	return err
}

func (m *Membership) delete(ctx context.Context) error {
	_, err := m.change(ctx, map[string]any{"then": []any{map[string]any{"delete": m.path}}})
	return err
}

func (m *Membership) deleteInBackground() { m.session.inBackground(m.delete, func() {}) }

// write creates the znode or replaces its data.
func (m *Membership) write(ctx context.Context, value string) error {
	set := map[string]any{"set": m.path, "data": value}
	create := map[string]any{"create": m.path, "data": value, "ephemeral": true, "parents": true}
	kinds, err := m.change(ctx, map[string]any{"then": []any{set}, "else": []any{create}})
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		if kind != "ephemeral" {
			return invalid("%s is not ephemeral, so it is not a membership", m.path)
		}
	}
	return nil
}

// change sends a transaction of the session, which has no effect after the end of the session. It returns the kinds of the
// changed znodes.
func (m *Membership) change(ctx context.Context, transaction map[string]any) ([]string, error) {
	exists := map[string]any{"path": m.path, "exists": true}
	transaction["if"], transaction["session"] = []any{exists}, m.session.name
	var body struct {
		Results []struct {
			Stat struct {
				Kind string `json:"kind"`
			} `json:"stat"`
		} `json:"results"`
	}
	err := m.session.sendNumbered(ctx, m.session.send, &body, []string{"results"}, func(number int64) (call, error) {
		transaction["request"] = number
		text, err := json.Marshal(transaction)
		return call{method: http.MethodPost, path: "/v1/txn", body: text, copies: harmless}, err
	})
	var kinds []string
	for _, result := range body.Results {
		kinds = append(kinds, result.Stat.Kind)
	}
	return kinds, err
}

// Members returns the value of each member by its session. It sends one call for each member.
func (g *Group) Members(ctx context.Context) (map[string]string, error) {
	if err := checkName("a group", g.name); err != nil {
		return nil, err
	}
	members := map[string]string{}
	sessions, err := g.sessions(ctx)
	for _, session := range sessions {
		value, isMember, valueErr := g.value(ctx, g.directory()+"/"+session)
		err = errors.Join(err, valueErr)
		// A listed member may have left.
		if isMember {
			members[session] = value
		}
	}
	if err != nil {
		return nil, err
	}
	return members, nil
}

// sessions returns the ephemeral children. Other children are directories of groups with longer names.
func (g *Group) sessions(ctx context.Context) ([]string, error) {
	var sessions []string
	for token := ""; ; {
		q := query{}.with(paramChildren, "true").withNumber(paramLimit, groupPage).withText(paramPageToken, token)
		var page struct {
			Children []struct {
				Name string `json:"name"`
				Kind string `json:"kind"`
			} `json:"children"`
			NextPageToken string `json:"next_page_token"`
		}
		err := g.client.calls.do(ctx, get(treePath(g.directory()), q), &page, "children")
		if rejectedWith(err, CodeNotFound) != nil {
			return sessions, nil
		}
		if err != nil {
			return nil, err
		}
		for _, child := range page.Children {
			if child.Kind == "ephemeral" {
				sessions = append(sessions, child.Name)
			}
		}
		if token = page.NextPageToken; token == "" {
			return sessions, nil
		}
	}
}

func (g *Group) value(ctx context.Context, path string) (value string, isMember bool, err error) {
	d := g.client.calls.deliver(ctx, get(treePath(path), nil))
	if rejectedWith(d.err, CodeNotFound) != nil {
		return "", false, nil
	}
	if d.err != nil {
		return "", false, d.err
	}
	kind := d.response.header.Get("Holdfast-Kind")
	if kind == "" {
		return "", false, unexpected("the answer has no kind of a znode")
	}
	return string(d.response.body), kind == "ephemeral", nil
}

// A GroupWatch receives the members of a group.
type GroupWatch struct {
	changes chan map[string]string
	err     error
}

// Watch delivers the members of a group, then the members after each change, until the context ends. Two quick changes may
// appear as one.
func (g *Group) Watch(ctx context.Context) (*GroupWatch, error) {
	if err := checkName("a group", g.name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	watch, err := g.client.Watch(ctx, g.directory()+"/")
	if err != nil {
		cancel()
		return nil, err
	}
	w := &GroupWatch{changes: make(chan map[string]string)}
	go func() {
		defer close(w.changes)
		defer cancel()
		w.err = w.follow(ctx, g, watch)
	}()
	return w, nil
}

// Changes returns the members after each change. The channel is closed at the end of the context, and when the cluster
// rejects the watch.
func (w *GroupWatch) Changes() <-chan map[string]string { return w.changes }

// Err returns why Changes was closed.
func (w *GroupWatch) Err() error { return w.err }

func (w *GroupWatch) follow(ctx context.Context, g *Group, watch *Watch) error {
	var present map[string]string
	// Without a change, all members are read.
	read := func(change *Change) (map[string]string, error) {
		if change == nil || change.Gap {
			return g.Members(ctx)
		}
		return g.after(ctx, present, change)
	}
	for change, failures := (*Change)(nil), 0; ; {
		members, err := read(change)
		// A node has served the watch, so a page may be that of a proxy that restarts.
		if isUnclear(err) {
			failures, change = failures+1, nil
			if err := sleep(ctx, retryPause(failures)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		failures = 0
		if present == nil || !maps.Equal(members, present) {
			present = members
			select {
			case w.changes <- maps.Clone(members):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		next, isOpen := <-watch.Changes()
		if !isOpen {
			return watch.Err()
		}
		change = &next
	}
}

// after returns the members after a change of one znode.
func (g *Group) after(ctx context.Context, before map[string]string, change *Change) (map[string]string, error) {
	session := strings.TrimPrefix(change.Path, g.directory()+"/")
	if strings.Contains(session, "/") {
		return before, nil
	}
	members := maps.Clone(before)
	delete(members, session)
	if change.Kind == "deleted" {
		return members, nil
	}
	value, isMember, err := g.value(ctx, change.Path)
	if isMember {
		members[session] = value
	}
	return members, err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
