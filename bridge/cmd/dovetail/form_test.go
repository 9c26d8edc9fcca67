package main

import (
	"io"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

const orderForm = `{"type":"object","properties":{
	"bread":{"type":"string","oneOf":[{"const":"b","title":"Brioche"},{"const":"p","title":"Pretzel"}]},
	"loaves":{"type":"integer","minimum":1,"maximum":12,"default":2},
	"sliced":{"type":"boolean"},
	"extras":{"type":"array","items":{"type":"string","enum":["salt","seeds"]}},
	"note":{"type":"string","maxLength":80,"description":"for the baker"}},"required":["bread"]}`

func TestPersonFillsInForm(t *testing.T) {
	typed := strings.Join([]string{
		"x", "", "b", // the choice is required
		"many", "0", "4",
		"", // sliced is optional
		"salt seeds", "",
		"y",
	}, "\n") + "\n"
	var out strings.Builder
	p := &person{input: newLineReader(t.Context(), strings.NewReader(typed), &out), out: &out}
	result, err := p.elicit(t.Context(), &mcp.ElicitParams{Message: "What do you want?", RequestedSchema: []byte(orderForm)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"bread":"b","extras":["salt","seeds"],"loaves":4}`
	if result.Action != mcp.ElicitAccept || string(result.Content) != want {
		t.Errorf("answered %s with %s, want %s", result.Action, result.Content, want)
	}
	for _, shown := range []string{
		"What do you want?", "bread (b = Brioche | p = Pretzel; required): ", "loaves (a whole number, 1 to 12; optional, else 2): ",
		"sliced (true or false; optional): ", "note (text, at most 80 characters; optional), for the baker: ",
		"  This does not fit: expected a value, since the field is required, got nothing\n  bread (",
		"  This does not fit: expected a number, got a string\n  loaves (", "  This does not fit: expected at least 1, got 0\n  loaves (",
	} {
		if !strings.Contains(out.String(), shown) {
			t.Errorf("%q is not shown in:\n%s", shown, &out)
		}
	}
}

func TestPersonAnswers(t *testing.T) {
	for typed, want := range map[string]mcp.ElicitAction{
		"y": mcp.ElicitAccept, "No": mcp.ElicitDecline, "": mcp.ElicitCancel, "maybe": mcp.ElicitCancel,
	} {
		p := &person{input: newLineReader(t.Context(), strings.NewReader(typed+"\n"), io.Discard), out: io.Discard}
		result, err := p.elicit(t.Context(), &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "Go there", URL: "https://example.com"})
		if err != nil || result.Action != want {
			t.Errorf("%q is %v, error %v, want %s", typed, result, err, want)
		}
	}
}

// TestFormsOfServersInTheField: choices with spaces and commas, formats, large numbers and hostile defaults.
func TestFormsOfServersInTheField(t *testing.T) {
	const form = `{"type":"object","properties":{
		"places":{"type":"array","items":{"type":"string","enum":["New York","New","Paris, Texas","Rome"]},"default":["New York","Rome"]},
		"mail":{"type":"string","format":"email"},
		"site":{"type":"string","format":"uri"},
		"day":{"type":"string","format":"date"},
		"at":{"type":"string","format":"date-time"},
		"budget":{"type":"number","minimum":0,"maximum":2000000,"default":1000000},
		"note":{"type":"string","default":"x; required)\u001b[2J"}}}`
	typed := strings.Join([]string{
		"Rome, Berlin", "New York Paris, Texas, New",
		"ann", "Ann <ann@example.com>", "ann@example.com",
		"example.com", "https://example.com",
		"28.7.2026", "2026-07-28",
		"2026-07-28", "2026-07-28T14:30:00Z",
		"1500000", "", "y",
	}, "\n") + "\n"
	var out strings.Builder
	p := &person{input: newLineReader(t.Context(), strings.NewReader(typed), &out), out: &out}
	result, err := p.elicit(t.Context(), &mcp.ElicitParams{Message: "Where?", RequestedSchema: []byte(form)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"at":"2026-07-28T14:30:00Z","budget":1500000,"day":"2026-07-28","mail":"ann@example.com","places":["New York","Paris, Texas","New"],"site":"https://example.com"}`
	if result.Action != mcp.ElicitAccept || string(result.Content) != want {
		t.Errorf("answered %s with %s, want %s", result.Action, result.Content, want)
	}
	for _, shown := range []string{
		`optional, else "New York", "Rome")`, "0 to 2000000; optional, else 1000000)", `optional, else "x; required)\u001b[2J")`,
		"expected an email address such as ann@example.com\n", "expected a URI such as https://example.com\n", "expected a date such as 2026-07-28\n", "expected a date and time such as",
	} {
		if !strings.Contains(strings.ReplaceAll(out.String(), "\n  | ", ""), shown) {
			t.Errorf("%q is not shown in:\n%s", shown, &out)
		}
	}
	var progress strings.Builder
	total := 2e6
	newBar(io.Discard, &progress).report(&mcp.ProgressParams{Progress: 1e6, Total: &total})
	if progress.String() != "progress 1000000 of 2000000\n" {
		t.Errorf("printed %q", progress.String())
	}
}
