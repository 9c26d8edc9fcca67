package memory_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server/memory"
)

func TestFactsAreSavedListedAndDeleted(t *testing.T) {
	eachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		says(t, session, "get_user_facts", `{"user_id":"ann"}`, `[]`)
		says(t, session, "delete_user_fact", `{"user_id":"ann","key":"city"}`, `{"deleted":false,"user_id":"ann","key":"city"}`)

		says(t, session, "save_user_fact", `{"user_id":"ann","key":"language","value":"Python"}`, `{"saved":true,"user_id":"ann","key":"language"}`)
		call(t, session, "save_user_fact", `{"user_id":"ann","key":"city","value":"Oslo"}`)
		call(t, session, "save_user_fact", `{"user_id":"ann","key":"language","value":"Go"}`)
		call(t, session, "save_user_fact", `{"user_id":"bob","key":"city","value":"Rome"}`)
		says(t, session, "get_user_facts", `{"user_id":"ann"}`, `[{"key":"city","value":"Oslo"},{"key":"language","value":"Go"}]`)

		says(t, session, "delete_user_fact", `{"user_id":"ann","key":"city"}`, `{"deleted":true,"user_id":"ann","key":"city"}`)
		says(t, session, "get_user_facts", `{"user_id":"ann"}`, `[{"key":"language","value":"Go"}]`)
		says(t, session, "get_user_facts", `{"user_id":"bob"}`, `[{"key":"city","value":"Rome"}]`)
	})
}

func TestFactHoldsAnyText(t *testing.T) {
	eachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		for _, value := range []string{"", " ", "42", `{"a":1}`, "a\u0000b", "line\nline", "<&>\u2028é😀"} {
			call(t, session, "save_user_fact", `{"user_id":"ann","key":"k","value":`+quoted(value)+`}`)
			facts, err := client.CallAs[[]memory.Record](t.Context(), session, "get_user_facts", map[string]string{"user_id": "ann"})
			if err != nil || len(facts) != 1 || facts[0].Value != value {
				t.Errorf("saved %q, got %q, %v", value, facts, err)
			}
		}
	})
}

func TestWhatIsTooLongOrCannotBeSeenIsRefused(t *testing.T) {
	eachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
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
			says(t, session, refused.tool, refused.arguments, "error: "+refused.want)
		}
		says(t, session, "get_user_facts", `{"user_id":"ann"}`, `[]`)
		says(t, session, "list_conversations", `{}`, `{"conversation_ids":[]}`)
	})
}

func TestWhatIsAsLongAsCanBeIsTaken(t *testing.T) {
	eachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		name := strings.Repeat("a", 256)
		call(t, session, "save_conversation", `{"conversation_id":"`+name+`","snapshot":"`+strings.Repeat("1", 1<<20)+`"}`)
		holds(t, session, "memory://conversations/"+name, strings.Repeat("1", 1<<20))
		value := strings.Repeat("v", 4096)
		call(t, session, "save_user_fact", `{"user_id":"`+name+`","key":"`+name+`","value":"`+value+`"}`)
		says(t, session, "get_user_facts", `{"user_id":"`+name+`"}`, `[{"key":"`+name+`","value":"`+value+`"}]`)
	})
}
