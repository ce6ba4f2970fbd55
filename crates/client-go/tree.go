package holdfast

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// AnyVersion makes a change of a znode unconditional.
const AnyVersion = -1

// A Znode is the data and the version of a znode.
type Znode struct {
	Path    string
	Data    []byte
	Version int64
}

// Get reads a znode. The error of a missing znode is a *RejectedError with the code not-found.
func (c *Client) Get(ctx context.Context, path string) (*Znode, error) {
	d := c.calls.deliver(ctx, get(treePath(path), nil))
	if d.err != nil {
		return nil, d.err
	}
	version, err := strconv.ParseInt(strings.Trim(d.response.header.Get("ETag"), `"`), 10, 64)
	if err != nil {
		return nil, unexpected("the answer has no version")
	}
	return &Znode{Path: path, Data: d.response.body, Version: version}, nil
}

// Put creates a znode and its missing parents, or replaces its data. It returns the new version. With a version other than
// AnyVersion it replaces only that version, and otherwise returns a *RejectedError with the code version-mismatch.
func (c *Client) Put(ctx context.Context, path string, data []byte, version int64) (int64, error) {
	put := call{method: http.MethodPut, path: treePath(path), body: data, header: map[string]string{}}
	if version == AnyVersion {
		put.query = query{}.with(paramParents, "true")
	} else {
		put.header["If-Match"] = strconv.Quote(strconv.FormatInt(version, 10))
	}
	return c.putOnce(ctx, put)
}

// Create creates a znode and its missing parents. An existing znode is a *RejectedError with the code znode-exists.
func (c *Client) Create(ctx context.Context, path string, data []byte) (int64, error) {
	put := call{method: http.MethodPut, path: treePath(path), body: data, query: query{}.with(paramParents, "true")}
	put.header = map[string]string{"If-None-Match": "*"}
	return c.putOnce(ctx, put)
}

func (c *Client) putOnce(ctx context.Context, put call) (int64, error) {
	var stat struct {
		Version int64 `json:"version"`
	}
	err := c.once(ctx, put, &stat, "version")
	return stat.Version, err
}

// Delete deletes a znode without children. With a version other than AnyVersion it deletes only that version.
func (c *Client) Delete(ctx context.Context, path string, version int64) error {
	remove := call{method: http.MethodDelete, path: treePath(path)}
	if version != AnyVersion {
		remove.header = map[string]string{"If-Match": strconv.Quote(strconv.FormatInt(version, 10))}
	}
	return c.once(ctx, remove, nil)
}

func treePath(path string) string { return "/v1/tree/" + escape(strings.TrimPrefix(path, "/"), "/") }
