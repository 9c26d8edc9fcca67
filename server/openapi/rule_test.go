package openapi_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/server/openapi"
)

const ruleDocument = `
paths:
  /pets: {get: {operationId: listPets, tags: [pets]}, post: {operationId: addPet, tags: [pets, write]}}
  /admin/users: {get: {operationId: listUsers}, delete: {operationId: dropUsers}}
  /pets/{id}: {get: {operationId: getPet, summary: One pet., description: "  "}}
`

func TestRules(t *testing.T) {
	for name, test := range map[string]struct {
		rules []openapi.Rule
		want  []string
	}{
		"none":         {nil, []string{"listPets", "addPet", "listUsers", "dropUsers", "getPet"}},
		"path":         {[]openapi.Rule{{Path: regexp.MustCompile("^/admin"), Expose: openapi.Excluded}}, []string{"listPets", "addPet", "getPet"}},
		"unanchored":   {[]openapi.Rule{{Path: regexp.MustCompile("users"), Expose: openapi.Excluded}}, []string{"listPets", "addPet", "getPet"}},
		"method":       {[]openapi.Rule{{Methods: []string{"Post", "delete"}, Expose: openapi.Excluded}}, []string{"listPets", "listUsers", "getPet"}},
		"tag":          {[]openapi.Rule{{Tags: []string{"write", "other"}, Expose: openapi.Excluded}}, []string{"listPets", "listUsers", "dropUsers", "getPet"}},
		"operationId":  {[]openapi.Rule{{OperationID: regexp.MustCompile("^list"), Expose: openapi.Excluded}}, []string{"addPet", "dropUsers", "getPet"}},
		"all of these": {[]openapi.Rule{{Path: regexp.MustCompile("pets"), Methods: []string{"GET"}, Expose: openapi.Excluded}}, []string{"addPet", "listUsers", "dropUsers"}},
		"first wins": {
			[]openapi.Rule{{OperationID: regexp.MustCompile("^getPet$"), Name: "pet"}, {Methods: []string{"GET"}, Expose: openapi.Excluded}},
			[]string{"addPet", "dropUsers", "pet"},
		},
		"everything": {[]openapi.Rule{{Expose: openapi.Excluded}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := provide(t, document("3.0.3", ruleDocument), openapi.Options{Rules: test.rules})
			if diff := cmp.Diff(test.want, toolNames(p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDescriptions(t *testing.T) {
	rules := []openapi.Rule{{OperationID: regexp.MustCompile("listPets"), Description: "All pets."}}
	p := provide(t, document("3.0.3", ruleDocument+"  /old: {get: {operationId: old, deprecated: true, description: An old one.}}\n"), openapi.Options{Rules: rules})
	for name, want := range map[string]string{"listPets": "All pets.", "getPet": "One pet.", "addPet": "addPet", "old": "Deprecated. An old one."} {
		if got := tool(t, p, name).Description; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for id, want := range map[string]string{
		`operationId: "repos/get-content"`:                "repos_get-content",
		`operationId: " Get  a pet! "`:                    "Get_a_pet",
		`operationId: v1.pets.list`:                       "v1.pets.list",
		`operationId: "日本"`:                               "get_pets_petId_toys",
		`operationId: ""`:                                 "get_pets_petId_toys",
		`summary: none`:                                   "get_pets_petId_toys",
		`operationId: ` + strings.Repeat("x", 200):        strings.Repeat("x", 128),
		`operationId: ` + strings.Repeat("x", 127) + "-y": strings.Repeat("x", 127) + "-",
	} {
		p := provide(t, document("3.0.3", "paths: {'/pets/{petId}/toys/': {get: {"+id+"}}}"), openapi.Options{})
		if got := toolNames(p); len(got) != 1 || got[0] != want {
			t.Errorf("%s: the name is %q, want %q", id, got, want)
		}
	}
}

func TestCollisionsNameBoth(t *testing.T) {
	text := document("3.0.3", "paths: {/a: {get: {operationId: same/one}}, /b: {put: {operationId: same_one}}}")
	wantContains(t, problems(t, text, openapi.Options{}), "PUT /b", "GET /a", `"same_one"`)
	provide(t, text, openapi.Options{Rules: []openapi.Rule{{Path: regexp.MustCompile("b"), Name: "other"}}})

	// A name that is given is not changed behind the program's back.
	one := []openapi.Rule{{Methods: []string{"GET"}, Name: "a name"}}
	wantContains(t, problems(t, text, openapi.Options{Rules: one}), "Rule.Name", "a name")
	wantContains(t, problems(t, text, openapi.Options{Rules: []openapi.Rule{{Name: "x"}}}), "GET /a", "PUT /b")
}

func TestProblemsAreListedTogether(t *testing.T) {
	var paths strings.Builder
	for i := range 30 {
		fmt.Fprintf(&paths, "  /a%02d?: {get: {}}\n", i)
	}
	got := problems(t, document("3.0.3", "paths:\n"+paths.String()), openapi.Options{})
	wantContains(t, got, "/a00?", "/a19?", "10 more operations")
}
