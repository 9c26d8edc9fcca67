package describe_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server/describe"
)

func TestRegistry(t *testing.T) {
	text, err := full().Registry()
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, "server.json", text)
}

// The official schema is in the module of the registry. .ci/describe sets the variable.
func TestRegistrySchema(t *testing.T) {
	name := os.Getenv("DOVETAIL_REGISTRY_SCHEMA")
	if name == "" {
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var id struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal(text, &id); err != nil {
		t.Fatal(err)
	}
	validator, err := schema.Compile(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []describe.Server{full(), {Name: "com.example/minimal", Version: "1.0.0", Description: "Smallest."}} {
		out, err := s.Registry()
		if err != nil {
			t.Fatal(err)
		}
		if err := validator.Validate(t.Context(), out); err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(out), `"$schema": "`+id.ID+`"`) {
			t.Errorf("the schema is not %s", id.ID)
		}
	}
}

func TestRegistryFaults(t *testing.T) {
	faults := map[string]fault{
		"name of one letter":   {func(s *describe.Server) { s.Name = "com.example/c" }, "Name"},
		"version with x":       {func(s *describe.Server) { s.Version = "1.0.0-next" }, "Version"},
		"icon in the document": {func(s *describe.Server) { s.Icons[0].Src = "data:image/png;base64,AAAA" }, "Icons[0].Src"},
		"type of icon":         {func(s *describe.Server) { s.Icons[0].MIMEType = "image/gif" }, "Icons[0].MIMEType"},
		"size of icon":         {func(s *describe.Server) { s.Icons[0].Sizes = []string{"big"} }, "Icons[0].Sizes"},
		"other service":        {func(s *describe.Server) { s.Repository.Source = "codeberg" }, "Repository"},
		"other host":           {func(s *describe.Server) { s.Repository.URL = "https://example.com/example/calc" }, "Repository"},
		"folder of repository": {func(s *describe.Server) { s.Repository.URL += "/tree/main" }, "Repository"},
		"loopback":             {func(s *describe.Server) { s.Remotes[1].URL = "http://localhost:8080/mcp" }, "Remotes[1].URL"},
		"https on loopback":    {func(s *describe.Server) { s.Remotes[1].URL = "https://127.0.0.1/mcp" }, "Remotes[1].URL"},
		"too many packages":    {func(s *describe.Server) { s.Packages = repeat(s.Packages[1], 101) }, "Packages"},
		"registry":             {func(s *describe.Server) { s.Packages[0].Registry = "go" }, "Packages[0].Registry"},
		"identifier":           {func(s *describe.Server) { s.Packages[0].Identifier = "a b" }, "Packages[0].Identifier"},
		"version of package":   {func(s *describe.Server) { s.Packages[1].Version = "1.x" }, "Packages[1].Version"},
		"digest":               {func(s *describe.Server) { s.Packages[1].SHA256 = "FE" }, "Packages[1].SHA256"},
		"no digest":            {func(s *describe.Server) { s.Packages[1].SHA256 = "" }, "Packages[1].SHA256"},
		"bundle with http":     {func(s *describe.Server) { s.Packages[1].Identifier = "http://example.com/a.mcpb" }, "Packages[1].Identifier"},
		"bundle with registry": {func(s *describe.Server) { s.Packages[1].RegistryURL = "https://github.com" }, "Packages[1].RegistryURL"},
		"URL of stdio":         {func(s *describe.Server) { s.Packages[1].URL = "https://example.com" }, "Packages[1].URL"},
		"no URL":               {func(s *describe.Server) { s.Packages[0].URL = "" }, "Packages[0].URL"},
		"unknown variable":     {func(s *describe.Server) { s.Packages[0].URL = "http://localhost:{x}/mcp" }, "Packages[0].URL"},
		"transport":            {func(s *describe.Server) { s.Packages[0].Transport = "ws" }, "Packages[0].Transport"},
		"flag with a value":    {func(s *describe.Server) { s.Packages[0].Arguments[0].Default = "--port=1" }, "Packages[0].Arguments[0]"},
		"flag with a space":    {func(s *describe.Server) { s.Packages[0].RuntimeArguments[0].Name = "-p 1" }, "Packages[0].RuntimeArguments[0].Name"},
		"no label":             {func(s *describe.Server) { s.Packages[0].Arguments[1].Label = "" }, "Packages[0].Arguments[1]"},
		"published secret":     {func(s *describe.Server) { s.Packages[0].Environment[0].Value = "abc" }, "Packages[0].Environment[0].Value"},
		"environment name":     {func(s *describe.Server) { s.Packages[0].Environment[0].Name = "A=B" }, "Packages[0].Environment[0].Name"},
		"too many arguments": {func(s *describe.Server) {
			s.Packages[0].Arguments = append(s.Packages[0].Arguments, repeat(s.Packages[0].Arguments[1], 99)...)
		}, "Packages[0].Arguments"},
	}
	for name, f := range identityFaults {
		if strings.Contains(name, "name") || strings.Contains(name, "icon") || strings.Contains(name, "source") || strings.Contains(name, "remote") {
			continue // breaks a rule of the registry too
		}
		faults[name] = f
	}
	wantFaults(t, faults, func(s describe.Server) error { _, err := s.Registry(); return err })
}
