package module

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/handlers"
)

// Admin is the module "admin.api.e2b": what operators can see and do at Caddy's admin
// endpoint, below /e2b/. It is nowhere else, and who may reach it is Caddy's to say:
// `admin off`, the address it listens on, `origins`, and the access control of remote
// administration hold for it as for Caddy's own API.
//
// [AdminRoutes] has every route. All answers but the status page are JSON; errors are
// {"error": "…"} with a status that is not 2xx, as Caddy's own. Whatever changes
// something is written to the log, with who, what and the result.
type Admin struct {
	ctx caddy.Context
}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api." + name, New: func() caddy.Module { return new(Admin) }}
}

// Provision keeps the context. The app is asked for with each request: it is
// provisioned later than the admin endpoint.
func (a *Admin) Provision(ctx caddy.Context) error {
	a.ctx = ctx
	return nil
}

// AdminRoute is one thing that operators can ask for.
type AdminRoute struct {
	Method string
	// Path is a pattern of [http.ServeMux]. What is in braces is a part of the path.
	Path string
	// Doc says what it does, in Markdown.
	Doc string
	// Query are its query parameters, by name.
	Query map[string]string
	// Example is a request body, "" where none is read.
	Example string

	// Exactly one of them is set.
	read func(*Admin, http.ResponseWriter, *http.Request) error
	// change returns what was done, for the answer and for the log.
	change func(*Admin, *http.Request) (any, error)
}

// Routes returns the routes, one for each path, and one for all that are none.
func (a *Admin) Routes() (routes []caddy.AdminRoute) {
	byPath := map[string]map[string]*AdminRoute{}
	for i := range adminRoutes {
		r := &adminRoutes[i]
		if byPath[r.Path] == nil {
			byPath[r.Path] = map[string]*AdminRoute{}
		}
		byPath[r.Path][r.Method] = r
	}
	for path, byMethod := range byPath {
		routes = append(routes, caddy.AdminRoute{Pattern: path, Handler: a.handler(byMethod)})
	}
	nothing := func(http.ResponseWriter, *http.Request) error {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("there is no such route; docs/admin.md lists them")}
	}
	return append(routes, caddy.AdminRoute{Pattern: "/e2b/", Handler: caddy.AdminHandlerFunc(nothing)})
}

// handler serves one path by method.
func (a *Admin) handler(byMethod map[string]*AdminRoute) caddy.AdminHandler {
	var allowed []string
	for method := range byMethod {
		allowed = append(allowed, method)
	}
	if byMethod[http.MethodGet] != nil {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		route := byMethod[method]
		if route == nil {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s not allowed", r.Method)}
		}
		if err := route.checkQuery(r); err != nil {
			return err
		}
		if route.change != nil {
			return a.carryOut(route, w, r)
		}
		return route.read(a, w, r)
	})
}

// checkQuery refuses a parameter that the route does not have: a filter with a slip in
// its name must not mean everything.
func (route *AdminRoute) checkQuery(r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what cannot be read is missing in r.URL.Query, and the filter wider
		return badRequest(errors.New("the query cannot be read: write & between parameters, and % as %25"))
	}
	for name, values := range query {
		switch _, known := route.Query[name]; {
		case !known:
			return badRequest(errors.New("there is a query parameter that this route does not have; docs/admin.md lists them"))
		case len(values) > 1:
			return badRequest(errors.New("a query parameter is given twice"))
		}
	}
	return nil
}

// live are the parts of the config that runs. release must be called.
func (a *Admin) live() (_ *live, release func(), _ error) {
	app, err := a.ctx.AppIfConfigured(name)
	if err != nil {
		return nil, nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: err}
	}
	shared := app.(*App).shared
	l, err := shared.acquire()
	if err != nil {
		return nil, nil, caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: err}
	}
	return l, shared.release, nil
}

// badRequest is the error of a request that cannot be carried out as sent.
func badRequest(err error) error {
	return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
}

// answerJSON answers with a value.
func answerJSON(w http.ResponseWriter, status int, v any) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // whoever asked has left
	return nil
}

// everywhere does something with the gateway of each config that has, or may have,
// calls running: streams outlive the config that they began with.
func everywhere(do func(*handlers.Gateway)) {
	for _, g := range departure.all() {
		do(g)
	}
}

var (
	_ caddy.Provisioner = (*Admin)(nil)
	_ caddy.AdminRouter = (*Admin)(nil)
)
