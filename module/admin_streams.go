package module

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddy-e2b/gateway/handlers"
)

// StreamList is the answer to GET /e2b/streams.
type StreamList struct {
	// Total is how many there are, also those beyond the limit.
	Total   int               `json:"total"`
	Streams []handlers.Stream `json:"streams"`
}

// Ended is the answer to a DELETE of streams.
type Ended struct {
	// Streams is how many were told to end.
	Streams int `json:"ended"`
}

// filterIn is what the query says of streams.
func filterIn(r *http.Request) (handlers.StreamFilter, error) {
	query := r.URL.Query()
	f := handlers.StreamFilter{Cluster: query.Get("cluster")}
	if !query.Has("sandbox") {
		return f, nil
	}
	var err error
	f.SandboxID, err = sandboxIn(query.Get("sandbox"))
	return f, err
}

func (a *Admin) streams(w http.ResponseWriter, r *http.Request) error {
	filter, err := filterIn(r)
	if err != nil {
		return err
	}
	limit, err := limitIn(r)
	if err != nil {
		return err
	}
	all := []handlers.Stream{}
	everywhere(func(g *handlers.Gateway) { all = append(all, g.Streams(filter)...) })
	slices.SortFunc(all, handlers.Stream.Compare)
	return answerJSON(w, http.StatusOK, StreamList{len(all), all[:min(len(all), limit)]})
}

func (a *Admin) endStreams(r *http.Request) (any, error) {
	filter, err := filterIn(r)
	if err != nil {
		return nil, err
	}
	if filter == (handlers.StreamFilter{}) {
		return nil, badRequest(errors.New("say whose streams to end: ?sandbox=… or ?cluster=…"))
	}
	return Ended{end(filter)}, nil
}

func (a *Admin) endStream(r *http.Request) (any, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || id == 0 {
		return nil, badRequest(errors.New("the id of a stream is a number"))
	}
	n := end(handlers.StreamFilter{ID: id})
	if n == 0 {
		return nil, notFound("there is no such stream; it may have ended")
	}
	return Ended{n}, nil
}

// end ends streams, whatever config they began with.
func end(filter handlers.StreamFilter) (n int) {
	everywhere(func(g *handlers.Gateway) { n += g.EndStreams(filter) })
	return n
}
