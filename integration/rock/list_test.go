package rock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// listed is a page of ROCK's own list.
type listed struct {
	Status string
	Error  string
	Result struct {
		Items []struct {
			SandboxID string `json:"sandbox_id"`
			State     string
			Memory    string
			Disk      string
			Metadata  map[string]string
		}
		Total    int
		HasMore  bool `json:"has_more"`
		Statuses []json.RawMessage
	}
}

func nativeCall(t *testing.T, c *Cluster, method, target, body string) (page listed) {
	t.Helper()
	w := httptest.NewRecorder()
	c.Proxy().ServeHTTP(w, httptest.NewRequest(method, native+target, strings.NewReader(body)))
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return page
}

// Contract rock.md 3.7.
func TestTheNativeListPagesFiltersAndFailsWhole(t *testing.T) {
	c, err := New(Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for i := range 7 {
		r := httptest.NewRequest("POST", "/sandboxes", strings.NewReader(fmt.Sprintf(`{"templateID":"base","timeout":60,"metadata":{"ap-sandbox-id":"s%d"}}`, i)))
		r.Header.Set("X-User-Id", fmt.Sprint("u", i%2))
		w := httptest.NewRecorder()
		if c.Admin().ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if err := c.Sandbox("s6").Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"?page=1&page_size=4":           "s0 s1 s2 s3 of 6, more",
		"?page=2&page_size=4":           "s4 s5 of 6",
		"?page=3&page_size=4":           "of 6",
		"?user_id=u1":                   "s1 s3 s5 of 3",
		"?user_id=u1&state=pending":     "of 0",
		"?state=running&image=base":     "s0 s1 s2 s3 s4 s5 of 6",
		"?page_size=501":                "failed",
		"?page=0":                       "failed",
		"?page=x":                       "failed",
		"?page=1&page_size=500&image=x": "of 0",
	} {
		page := nativeCall(t, c, "GET", "/sandboxes"+target, "")
		got := "failed"
		if page.Status == "Success" {
			got = ""
			for _, i := range page.Result.Items {
				if i.Memory != "8.00g" || i.Disk != "50G" || i.State != "running" || i.Metadata[containerName] != i.SandboxID {
					t.Errorf("%+v", i)
				}
				got += i.SandboxID + " "
			}
			got += fmt.Sprint("of ", page.Result.Total)
			if page.Result.HasMore {
				got += ", more"
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	if page := nativeCall(t, c, "POST", "/sandboxes/batch", `{"sandbox_ids":["s1","s6","never","s2"]}`); len(page.Result.Statuses) != 2 {
		t.Errorf("%+v", page)
	}
	c.Sandbox("s2").Spoil(SpoilNative | SpoilE2B)
	for target, want := range map[string]string{
		"?page=1&page_size=4": "Failed", "?page=2&page_size=4": "Success", "?page=3&page_size=1": "Failed", "?page=2&page_size=1": "Success",
	} {
		if page := nativeCall(t, c, "GET", "/sandboxes"+target, ""); page.Status != want {
			t.Errorf("%s: %+v", target, page)
		}
	}
	w := httptest.NewRecorder()
	if c.Proxy().ServeHTTP(w, httptest.NewRequest("GET", "/v2/sandboxes?metadata=ap-sandbox-id%3Ds2", nil)); w.Code != 500 {
		t.Errorf("the E2B list: %d %s", w.Code, w.Body)
	}
}
