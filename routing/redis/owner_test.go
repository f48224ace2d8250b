package redis

import (
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/routing"
)

func TestARecordTellsItsOwner(t *testing.T) {
	opened := [32]byte{31: 7}
	keyOf := func(sealed string) ([32]byte, bool) { return opened, sealed == "good" }
	noted := routing.Owner{Subject: "alice", Key: [32]byte{1}}
	metadata := `"metadata":{"e2b-gateway/owner":"` + noted.Metadata() + `","a":"b"}`
	for name, tc := range map[string]struct {
		fields string
		want   routing.Owner
	}{
		"noted by the gateway":          {metadata, noted},
		"noted, and a key":              {metadata + `,"rock_authorization_encrypted":"good"`, noted},
		"a key only":                    {`"metadata":{},"rock_authorization_encrypted":"good"`, routing.Owner{Key: opened}},
		"a key, and a malformed note":   {`"metadata":{"e2b-gateway/owner":"alice"},"rock_authorization_encrypted":"good"`, routing.Owner{Key: opened}},
		"a key that cannot be opened":   {`"rock_authorization_encrypted":"bad"`, routing.Owner{}},
		"a key that is no string":       {`"rock_authorization_encrypted":7`, routing.Owner{}},
		"a partial record":              {`"host_ip":""`, routing.Owner{}},
		"a malformed note":              {`"metadata":{"e2b-gateway/owner":"alice"}`, routing.Owner{}},
		"a note that is no string":      {`"metadata":{"e2b-gateway/owner":{"alice":1}}`, routing.Owner{}},
		"a note of another spelling":    {strings.Replace(metadata, "gateway/owner", "gateway/Owner", 1), routing.Owner{}},
		"metadata that is no object":    {`"metadata":["e2b-gateway/owner"]`, routing.Owner{}},
		"metadata that is null":         {`"metadata":null`, routing.Owner{}},
		"other metadata is no string":   {strings.Replace(metadata, `"b"`, `null`, 1), noted},
		"a note outside of metadata":    {`"e2b-gateway/owner":"` + noted.Metadata() + `"`, routing.Owner{}},
		"a note one level further down": {`"metadata":{"metadata":` + metadata[len(`"metadata":`):] + `}`, routing.Owner{}},
	} {
		r, err := parseRecord("a", []byte(`{"state":"running",`+tc.fields+`}`), rockFields, keyOf)
		if err != nil || r.Owner != tc.want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if r, err := parseRecord("a", []byte(`{"state":"running","rock_authorization_encrypted":"good"}`), rockFields, nil); err != nil || r.Owner != (routing.Owner{}) {
		t.Errorf("without a key: %+v, %v", r, err)
	}
}

func TestARecordTellsWhetherTheSandboxIsPrivate(t *testing.T) {
	for fields, private := range map[string]bool{
		`"metadata":{"e2b-gateway/traffic":"private"}`:       true,
		`"metadata":{"e2b-gateway/traffic":null,"a":"b"}`:    true, // the note is there
		`"metadata":{"e2b-gateway/traffics":"private"}`:      false,
		`"metadata":{"a":{"e2b-gateway/traffic":"private"}}`: false,
		`"e2b-gateway/traffic":"private"`:                    false,
		`"metadata":"e2b-gateway/traffic"`:                   false,
		`"metadata":null`:                                    false,
	} {
		r, err := parseRecord("a", []byte(`{"state":"running",`+fields+`}`), rockFields, nil)
		if err != nil || r.Private != private {
			t.Errorf("%s: %+v, %v", fields, r, err)
		}
	}
}
