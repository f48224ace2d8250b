package auth

import (
	"net/http"
	"reflect"
	"testing"
)

// Field report M05, contract checklist 19.
func TestATenantIsWhatTheKeySaysAndNothingElse(t *testing.T) {
	forged := func() http.Header {
		return http.Header{
			"X-User-Id": {"root"}, "x-user-id": {"root"}, "X_User_Id": {"root"}, "X.User-Id": {"root"}, "X-USER_ID": {"root"},
			"X-Namespace": {"n", "m"}, "X_experiment.id": {"e"}, "X-Cluster": {"c"}, "X-User-Identity": {"stays"},
		}
	}
	h := forged()
	SetTenant(h, Tenant{UserID: "u-1", Cluster: "vpc-a"})
	if want := (http.Header{"X-User-Id": {"u-1"}, "X-Cluster": {"vpc-a"}, "X-User-Identity": {"stays"}}); !reflect.DeepEqual(h, want) {
		t.Errorf("%v", h)
	}
	h = forged()
	SetTenant(h, Tenant{})
	if want := (http.Header{"X-User-Identity": {"stays"}}); !reflect.DeepEqual(h, want) {
		t.Errorf("without a tenant: %v", h)
	}
}

func TestRockIsNotShownWhoseCallItIs(t *testing.T) {
	h := http.Header{
		"X-Api-Key": {"k"}, "X_API_KEY": {"k"}, "X-Key": {"k"}, "Xrl-Authorization": {"k"}, "xrl.authorization": {"k"},
		"Authorization": {"k"}, "Cookie": {"k"}, "X-Access-Token": {"k"}, "Lang_version": {"stays"},
	}
	StripCaller(h)
	if want := (http.Header{"Lang_version": {"stays"}}); !reflect.DeepEqual(h, want) {
		t.Errorf("%v", h)
	}
}
