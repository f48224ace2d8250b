package routing

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAStartHasFailedWithOneOfItsPhases(t *testing.T) {
	for phases, want := range map[string]string{
		``:     "",
		`null`: "",
		`[]`:   "",
		`{}`:   "",
		`{"image_pull":{"status":"success","message":"ok"},"docker_run":{"status":"running","message":""}}`: "",
		`{"image_pull":{"status":"failed","message":"no such image"},"docker_run":{"status":"waiting"}}`:    "image_pull: failed: no such image",
		`{"image_pull":{"status":"success"},"docker_run":{"status":"timeout","message":"after 60 s"}}`:      "docker_run: timeout: after 60 s",
		`{"b":{"status":"failed","message":"b"},"a":{"status":"failed","message":"a"}}`:                     "a: failed: a",
		`{"image_pull":"failed","docker_run":{"status":"failed","message":{"a":1}}}`:                        "docker_run: failed: ",
		`{"image_pull":{"status":"failed","message":null}}`:                                                 "image_pull: failed: ",
		`{"image_pull":{"status":"failed","message":"` + strings.Repeat("x", 400) + `"}}`:                   "image_pull: failed: " + strings.Repeat("x", 300),
	} {
		if why, failed := FailedPhase(json.RawMessage(phases)); why != want || failed != (want != "") {
			t.Errorf("%s: %q, %v", phases, why, failed)
		}
	}
}

func FuzzFailedPhase(f *testing.F) {
	f.Add([]byte(`{"image_pull":{"status":"failed","message":"no such image"}}`))
	f.Add([]byte(`{"image_pull":{"status":"timeout","message":7}}`))
	f.Fuzz(func(t *testing.T, phases []byte) {
		why, failed := FailedPhase(phases)
		if failed != (why != "") || len(why) > 4*400 {
			t.Errorf("%q, %v", why, failed)
		}
	})
}
