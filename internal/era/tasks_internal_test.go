package era

import (
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestTimeToLiveOfTasks: a client of 2025-11-25 may shorten the time to live of a task, and no client can lengthen it.
func TestTimeToLiveOfTasks(t *testing.T) {
	for _, ofTool := range []time.Duration{-time.Hour, 0, time.Hour, 48 * time.Hour} {
		longest := ofTool
		if ofTool <= 0 {
			longest = 24 * time.Hour
		}
		for wanted, want := range map[string]time.Duration{
			`{}`:                               longest,
			`{"task":{}}`:                      longest,
			`{"task":{"ttl":60000}}`:           time.Minute,
			`{"task":{"ttl":0}}`:               longest,
			`{"task":{"ttl":-1}}`:              longest,
			`{"task":{"ttl":"60000"}}`:         longest,
			`{"task":{"ttl":3600000}}`:         min(longest, time.Hour),
			`{"task":{"ttl":172800001}}`:       longest,
			`{"task":{"ttl":922337203685478}}`: longest, // more than a time.Duration holds
		} {
			for _, version := range mcp.Versions() {
				req, err := jsonrpc.NewRequest(jsonrpc.ID{}, mcp.MethodToolsCall, []byte(wanted))
				if err != nil {
					t.Fatal(err)
				}
				c := &call{}
				c.Call = mcp.NewCall(req, &mcp.Caller{Version: version}, nil)
				want := want
				if version != mcp.Version20251125 {
					want = longest
				}
				if got := taskTTL(c, ofTool); got != want {
					t.Errorf("%s, params %s, %v of the tool: %v, want %v", version, wanted, ofTool, got, want)
				}
			}
		}
	}
}
