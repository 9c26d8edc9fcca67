package delivery_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Keys with other members have other ids, also if their concatenation is equal.
func TestIDs(t *testing.T) {
	key := delivery.Key{Principal: "a", URL: "https://b/", Event: "c", Arguments: json.RawMessage("{}")}
	ids := map[string]bool{}
	for _, change := range []func(*delivery.Key){
		func(*delivery.Key) {},
		func(k *delivery.Key) { k.Principal = "ah" },
		func(k *delivery.Key) { k.Principal, k.URL = "ah", "ttps://b/" },
		func(k *delivery.Key) { k.URL, k.Event = "https://b", "/c" },
		func(k *delivery.Key) { k.Event, k.Arguments = "c{", json.RawMessage("}") },
		func(k *delivery.Key) { k.Arguments = json.RawMessage(`{"a":1}`) },
	} {
		changed := key
		change(&changed)
		ids[changed.ID()] = true
		if !strings.HasPrefix(changed.ID(), "sub_") {
			t.Errorf("the id is %q", changed.ID())
		}
	}
	if len(ids) != 6 {
		t.Errorf("6 keys have %d ids", len(ids))
	}
}
