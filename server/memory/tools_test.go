package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/memory"
)

func TestConversation(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		const uri = "memory://conversations/c1"
		wantResource(t, session, uri, `[]`)
		wantText(t, session, "get_conversation", `{"conversation_id":"c1"}`, `{"conversation_id":"c1","found":false}`)
		wantText(t, session, "delete_conversation", `{"conversation_id":"c1"}`, `{"deleted":false,"conversation_id":"c1"}`)

		wantText(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"[1]"}`, `{"saved":true,"conversation_id":"c1"}`)
		wantText(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"{\"messages\":[\"hello\"]}"}`, `{"saved":true,"conversation_id":"c1"}`)
		wantResource(t, session, uri, `{"messages":["hello"]}`)
		wantText(t, session, "get_conversation", `{"conversation_id":"c1"}`, `{"conversation_id":"c1","found":true,"snapshot":{"messages":["hello"]}}`)

		wantText(t, session, "delete_conversation", `{"conversation_id":"c1"}`, `{"deleted":true,"conversation_id":"c1"}`)
		wantResource(t, session, uri, `[]`)
	})
}

func TestJSONSnapshot(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		for snapshot, want := range map[string]string{
			`{"n":[9007199254740993,1.0,1e400],"Z":1,"z":2}`: `{"n":[9007199254740993,1.0,1e400],"Z":1,"z":2}`,
			" [ 1,\n 2 ] ":          " [ 1,\n 2 ] ",
			`null`:                  `null`,
			`"text"`:                `"text"`,
			`"\u00e9<&>\u2028"`:     `"\u00e9<&>\u2028"`,
			"Ann asked for \"tea\"": `"Ann asked for \"tea\""`,
			`{"unfinished":`:        `"{\"unfinished\":"`,
			``:                      `""`,
			`NaN`:                   `"NaN"`,
			`1 2`:                   `"1 2"`,
		} {
			wantText(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":`+quoted(snapshot)+`}`, `{"saved":true,"conversation_id":"c1"}`)
			wantResource(t, session, "memory://conversations/c1", want)
		}
	})
}

func TestSnapshotKeepsNumbers(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		call(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"{\"z\":9007199254740993,\"a\":1.0}"}`)
		wantText(t, session, "get_conversation", `{"conversation_id":"c1"}`, `{"conversation_id":"c1","found":true,"snapshot":{"z":9007199254740993,"a":1.0}}`)
	})
}

func TestConversationIDs(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		for id, uri := range map[string]string{
			"a b":         "memory://conversations/a%20b",
			"a+b":         "memory://conversations/a%2Bb",
			"a?b#c":       "memory://conversations/a%3Fb%23c",
			"100%":        "memory://conversations/100%25",
			"é😀":          "memory://conversations/%C3%A9%F0%9F%98%80",
			"-._~":        "memory://conversations/-._~",
			"{id}":        "memory://conversations/%7Bid%7D",
			"(c)!*';:@&=": "memory://conversations/%28c%29%21%2A%27%3B%3A%40%26%3D",
		} {
			call(t, session, "save_conversation", `{"conversation_id":`+quoted(id)+`,"snapshot":`+quoted(quoted(id))+`}`)
			wantResource(t, session, uri, quoted(id))
		}
		wantResource(t, session, "memory://conversations/é😀", quoted("é😀")) // as people write it
	})
}

func TestMissingIsError(t *testing.T) {
	forEachEra(t, &memory.Options{MissingIsError: true}, func(t *testing.T, _ client.Era, session *client.Session) {
		for _, uri := range []string{"memory://conversations/c1", "memory://conversations/" + strings.Repeat("a", 257), "memory://conversations/a%00"} {
			if _, err := session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("reading %.60s gives %v, want not found", uri, err)
			}
		}
		call(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"{}"}`)
		wantResource(t, session, "memory://conversations/c1", `{}`)
	})
}

func TestReadInvalidID(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		wantResource(t, session, "memory://conversations/"+strings.Repeat("a", 257), `[]`)
	})
}

// A conversation with such an id is available to the tools only.
func TestIDNotAPathSegment(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		for id, uri := range map[string]string{"a/b": "memory://conversations/a%2Fb", "..": "memory://conversations/%2E%2E"} {
			wantText(t, session, "save_conversation", `{"conversation_id":`+quoted(id)+`,"snapshot":"{}"}`, `{"saved":true,"conversation_id":`+quoted(id)+`}`)
			wantText(t, session, "get_conversation", `{"conversation_id":`+quoted(id)+`}`, `{"conversation_id":`+quoted(id)+`,"found":true,"snapshot":{}}`)
			if _, err := session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("reading %s gives %v, want not found", uri, err)
			}
		}
	})
}

func TestListConversationsPages(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		wantText(t, session, "list_conversations", `{}`, `{"conversation_ids":[]}`)
		for _, id := range []string{"b", "a2", "a1", "a3", "é"} {
			call(t, session, "save_conversation", `{"conversation_id":`+quoted(id)+`,"snapshot":"{}"}`)
		}
		for arguments, want := range map[string]string{
			`{}`:                         `{"conversation_ids":["a1","a2","a3","b","é"]}`,
			`{"limit":5}`:                `{"conversation_ids":["a1","a2","a3","b","é"]}`,
			`{"limit":2}`:                `{"conversation_ids":["a1","a2"],"next":"a2"}`,
			`{"limit":2,"after":"a2"}`:   `{"conversation_ids":["a3","b"],"next":"b"}`,
			`{"limit":2,"after":"b"}`:    `{"conversation_ids":["é"]}`,
			`{"prefix":"a"}`:             `{"conversation_ids":["a1","a2","a3"]}`,
			`{"prefix":"a","limit":3}`:   `{"conversation_ids":["a1","a2","a3"]}`,
			`{"prefix":"a","after":"z"}`: `{"conversation_ids":[]}`,
			`{"prefix":"` + strings.Repeat("a", 257) + `"}`: "error: prefix: expected at most 256 bytes, got 257",
			`{"after":"` + strings.Repeat("a", 257) + `"}`:  "error: after: expected at most 256 bytes, got 257",
			`{"limit":0}`:    `error: at "/limit": expected at least 1, got 0`,
			`{"limit":1001}`: `error: at "/limit": expected at most 1000, got 1001`,
		} {
			wantText(t, session, "list_conversations", arguments, want)
		}
	})
}

func TestCompleteConversation(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		for i := range 102 {
			call(t, session, "save_conversation", fmt.Sprintf(`{"conversation_id":"c%03d","snapshot":"{}"}`, i))
		}
		complete := func(typed string) *mcp.CompletionValues {
			t.Helper()
			values, err := session.CompleteTemplate(t.Context(), "memory://conversations/{id}", "id", typed, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return values
		}
		if got := complete("c05").Values; len(got) != 10 || got[0] != "c050" || got[9] != "c059" {
			t.Errorf("c05 is completed to %q", got)
		}
		if got := complete(""); len(got.Values) != 100 || !got.HasMore {
			t.Errorf("nothing typed: %d values, more: %t", len(got.Values), got.HasMore)
		}
		if got := complete("x").Values; len(got) != 0 {
			t.Errorf("x is completed to %q", got)
		}
	})
}

// next waits for a notification.
func next(t *testing.T, changes <-chan mcp.Change) mcp.Change {
	t.Helper()
	select {
	case change := <-changes:
		return change
	case <-time.After(10 * time.Second):
		t.Fatal("no notification")
		return mcp.Change{}
	}
}

func TestSubscribersAreNotified(t *testing.T) {
	forEachServer(t, nil, func(t *testing.T, era client.Era, s *server.Server) {
		changes := make(chan mcp.Change, 10)
		subscriber := connect(t, transporttests.Dialer(t, s), &client.Options{
			Era: era, OnChange: func(_ context.Context, change mcp.Change) { changes <- change },
		})
		const uri = "memory://conversations/a%20b"
		_, err := subscriber.Subscribe(t.Context(), mcp.SubscriptionFilter{
			ResourceSubscriptions: []string{uri, "memory://conversations/c2"},
		})
		if err != nil {
			t.Fatal(err)
		}
		writer := connect(t, transporttests.Dialer(t, s), &client.Options{Era: era})
		call(t, writer, "delete_conversation", `{"conversation_id":"c2"}`) // does not exist, so no notification
		call(t, writer, "save_conversation", `{"conversation_id":"else","snapshot":"1"}`)
		call(t, writer, "save_conversation", `{"conversation_id":"a b","snapshot":"1"}`)
		want := mcp.Change{Kind: mcp.KindResource, URI: uri}
		if diff := cmp.Diff(want, next(t, changes)); diff != "" {
			t.Errorf("after a save (-want +got):\n%s", diff)
		}
		call(t, writer, "delete_conversation", `{"conversation_id":"a b"}`)
		if diff := cmp.Diff(want, next(t, changes)); diff != "" {
			t.Errorf("after a delete (-want +got):\n%s", diff)
		}
	})
}

func TestOnlyOwnerIsNotified(t *testing.T) {
	forEachServer(t, nil, func(t *testing.T, era client.Era, s *server.Server) {
		const uri = "memory://conversations/c1"
		told := make(map[string]chan mcp.Change)
		for _, principal := range []string{"ada", "eve"} {
			changes := make(chan mcp.Change, 10)
			told[principal] = changes
			subscriber := connect(t, as(principal, s), &client.Options{
				Era: era, OnChange: func(_ context.Context, change mcp.Change) { changes <- change },
			})
			if _, err := subscriber.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, principal := range []string{"ada", "eve"} { // eve gets only the notification of her own change
			writer := connect(t, as(principal, s), &client.Options{Era: era})
			for _, do := range []string{"save", "delete"} {
				call(t, writer, do+"_conversation", map[string]string{
					"save": `{"conversation_id":"c1","snapshot":"1"}`, "delete": `{"conversation_id":"c1"}`,
				}[do])
				if diff := cmp.Diff(mcp.Change{Kind: mcp.KindResource, URI: uri}, next(t, told[principal])); diff != "" {
					t.Errorf("after a %s by %s (-want +got):\n%s", do, principal, diff)
				}
			}
		}
		for principal, changes := range told {
			if len(changes) > 0 {
				t.Errorf("%s is notified of the change of another owner: %+v", principal, <-changes)
			}
		}
	})
}

func TestFacts(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		wantText(t, session, "get_user_facts", `{"user_id":"ann"}`, `[]`)
		wantText(t, session, "delete_user_fact", `{"user_id":"ann","key":"city"}`, `{"deleted":false,"user_id":"ann","key":"city"}`)

		wantText(t, session, "save_user_fact", `{"user_id":"ann","key":"language","value":"Python"}`, `{"saved":true,"user_id":"ann","key":"language"}`)
		call(t, session, "save_user_fact", `{"user_id":"ann","key":"city","value":"Oslo"}`)
		call(t, session, "save_user_fact", `{"user_id":"ann","key":"language","value":"Go"}`)
		call(t, session, "save_user_fact", `{"user_id":"bob","key":"city","value":"Rome"}`)
		wantText(t, session, "get_user_facts", `{"user_id":"ann"}`, `[{"key":"city","value":"Oslo"},{"key":"language","value":"Go"}]`)

		wantText(t, session, "delete_user_fact", `{"user_id":"ann","key":"city"}`, `{"deleted":true,"user_id":"ann","key":"city"}`)
		wantText(t, session, "get_user_facts", `{"user_id":"ann"}`, `[{"key":"language","value":"Go"}]`)
		wantText(t, session, "get_user_facts", `{"user_id":"bob"}`, `[{"key":"city","value":"Rome"}]`)
	})
}

func TestFactValues(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		for _, value := range []string{"", " ", "42", `{"a":1}`, "a\u0000b", "line\nline", "<&>\u2028é😀"} {
			call(t, session, "save_user_fact", `{"user_id":"ann","key":"k","value":`+quoted(value)+`}`)
			facts, err := client.CallAs[[]memory.Record](t.Context(), session, "get_user_facts", map[string]string{"user_id": "ann"}, nil)
			if err != nil || len(facts) != 1 || facts[0].Value != value {
				t.Errorf("saved %q, got %q, %v", value, facts, err)
			}
		}
	})
}

func TestInvalidArguments(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		long := strings.Repeat("a", 257)
		for _, refused := range []struct{ tool, arguments, want string }{
			{"save_conversation", `{"conversation_id":"` + long + `","snapshot":"1"}`, "conversation_id: expected at most 256 bytes, got 257"},
			{"get_conversation", `{"conversation_id":"` + long + `"}`, "conversation_id: expected at most 256 bytes, got 257"},
			{"delete_conversation", `{"conversation_id":"` + long + `"}`, "conversation_id: expected at most 256 bytes, got 257"},
			{"save_conversation", `{"conversation_id":"` + strings.Repeat("é", 129) + `","snapshot":"1"}`, "conversation_id: expected at most 256 bytes, got 258"},
			{"save_conversation", `{"conversation_id":"a\u0000","snapshot":"1"}`, "conversation_id: expected no control characters"},
			{"save_conversation", `{"conversation_id":"a\n","snapshot":"1"}`, "conversation_id: expected no control characters"},
			{"save_conversation", `{"conversation_id":"a\u0085","snapshot":"1"}`, "conversation_id: expected no control characters"},
			{"save_conversation", `{"conversation_id":"c","snapshot":"` + strings.Repeat("a", 1<<20+1) + `"}`, "snapshot: expected at most 1048576 bytes, got 1048577"},
			{"save_user_fact", `{"user_id":"` + long + `","key":"k","value":"v"}`, "user_id: expected at most 256 bytes, got 257"},
			{"save_user_fact", `{"user_id":"ann","key":"` + long + `","value":"v"}`, "key: expected at most 256 bytes, got 257"},
			{"save_user_fact", `{"user_id":"ann","key":"k\t","value":"v"}`, "key: expected no control characters"},
			{"save_user_fact", `{"user_id":"ann","key":"k","value":"` + strings.Repeat("a", 4097) + `"}`, "value: expected at most 4096 bytes, got 4097"},
			{"get_user_facts", `{"user_id":"` + long + `"}`, "user_id: expected at most 256 bytes, got 257"},
			{"delete_user_fact", `{"user_id":"ann","key":"` + long + `"}`, "key: expected at most 256 bytes, got 257"},
			{"delete_user_fact", `{"user_id":"a\u007f","key":"k"}`, "user_id: expected no control characters"},
			{"save_user_fact", `{"user_id":"","key":"k","value":"v"}`, `at "/user_id": expected at least 1 character, got 0 characters`},
		} {
			wantText(t, session, refused.tool, refused.arguments, "error: "+refused.want)
		}
		wantText(t, session, "get_user_facts", `{"user_id":"ann"}`, `[]`)
		wantText(t, session, "list_conversations", `{}`, `{"conversation_ids":[]}`)
	})
}

func TestLongestArguments(t *testing.T) {
	racetest.Skip(t)
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		name := strings.Repeat("a", 256)
		call(t, session, "save_conversation", `{"conversation_id":"`+name+`","snapshot":"`+strings.Repeat("1", 1<<20)+`"}`)
		wantResource(t, session, "memory://conversations/"+name, strings.Repeat("1", 1<<20))
		value := strings.Repeat("v", 4096)
		call(t, session, "save_user_fact", `{"user_id":"`+name+`","key":"`+name+`","value":"`+value+`"}`)
		wantText(t, session, "get_user_facts", `{"user_id":"`+name+`"}`, `[{"key":"`+name+`","value":"`+value+`"}]`)
	})
}
