package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/servertest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // for what guards and failing starts say
	servertest.Main(m)
}

// inEachMode runs a test with a new shop for each transport and family of versions.
func inEachMode(t *testing.T, o options, opts servertest.Options, test func(t *testing.T, s *client.Session)) {
	t.Helper()
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		of := opts
		of.Mode = mode
		test(t, servertest.Connect(t, newServer(o), &of))
	})
}

func search(t *testing.T, s *client.Session, query string) []string {
	t.Helper()
	items, err := client.CallAs[[]Item](t.Context(), s, "search", map[string]string{"query": query}, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, item := range items {
		names = append(names, item.Name)
	}
	return names
}

func readItem(t *testing.T, s *client.Session, id int) Item {
	t.Helper()
	read, err := s.ReadResource(t.Context(), Item{ID: id}.uri(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var item Item
	if err := json.Unmarshal([]byte(read.Contents[0].(*mcp.TextResourceContents).Text), &item); err != nil {
		t.Fatal(err)
	}
	return item
}

func tools(t *testing.T, s *client.Session) map[string]*mcp.Tool {
	t.Helper()
	tools := map[string]*mcp.Tool{}
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = tool
	}
	return tools
}

func TestSearch(t *testing.T) {
	inEachMode(t, options{}, servertest.Options{}, func(t *testing.T, s *client.Session) {
		for query, want := range map[string][]string{
			"bread": {"Rye bread", "Baguette"},
			"TEA":   {"Green tea"},
			"x":     {},
			"":      {"Rye bread", "Baguette", "Butter", "Goat cheese", "Honey", "Green tea"},
		} {
			if got := search(t, s, query); !slices.Equal(got, want) {
				t.Errorf("search finds %q for %q, want %q", got, query, want)
			}
		}
		items, err := client.CallAs[[]Item](t.Context(), s, "search", map[string]any{"query": "", "limit": 2}, nil)
		if err != nil || len(items) != 2 {
			t.Errorf("search with a limit of 2 gives %v, %v", items, err)
		}
	})
}

func TestOrder(t *testing.T) {
	inEachMode(t, options{}, servertest.Options{}, func(t *testing.T, s *client.Session) {
		for n := range 2 {
			order, err := client.CallAs[Order](t.Context(), s, "order", map[string]int{"item": 1, "quantity": 2}, nil)
			if err != nil || order.Number != n+1 || order.Price != 840 || order.Time.IsZero() {
				t.Errorf("order gives %+v, %v", order, err)
			}
		}
		if item := readItem(t, s, 1); item.Stock != 4 {
			t.Errorf("the item is %+v", item)
		}
		for arguments, says := range map[string]string{
			`{"item":1,"quantity":99}`: `only 4 of "Rye bread" are in stock`,
			`{"item":99}`:              "there is no item 99",
			`{"item":1,"quantity":0}`:  "at least 1",
			`{"item":"bread"}`:         "expected an integer",
		} {
			_, err := client.CallAs[Order](t.Context(), s, "order", json.RawMessage(arguments), nil)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("order %s gives %v, want it to say %s", arguments, err, says)
			}
		}
	})
}

// A large order is carried out when the person has confirmed it, and only then.
func TestLargeOrder(t *testing.T) {
	var sure bool
	inEachMode(t, options{}, servertest.Options{Answers: map[string]any{
		"2 × Green tea is 25.80 €. Order?": func() any { return map[string]bool{"sure": sure} },
	}}, func(t *testing.T, s *client.Session) {
		tea := map[string]int{"item": 6, "quantity": 2}
		sure = false
		if _, err := client.CallAs[Order](t.Context(), s, "order", tea, nil); err == nil || !strings.Contains(err.Error(), "declined to order") {
			t.Errorf("an order that is not confirmed gives %v", err)
		}
		if item := readItem(t, s, 6); item.Stock != 9 {
			t.Errorf("the item is %+v", item)
		}
		sure = true
		if order, err := client.CallAs[Order](t.Context(), s, "order", tea, nil); err != nil || order.Price != 2580 || order.Number != 1 {
			t.Errorf("an order that is confirmed gives %+v, %v", order, err)
		}
		if item := readItem(t, s, 6); item.Stock != 7 {
			t.Errorf("the item is %+v", item)
		}
	})
}

// A subscriber of an item is notified of an order.
func TestWatchItem(t *testing.T) {
	changes := make(chan mcp.Change, 8)
	inEachMode(t, options{}, servertest.Options{Client: client.Options{
		OnChange: func(_ context.Context, change mcp.Change) { changes <- change },
	}}, func(t *testing.T, s *client.Session) {
		subscription, err := s.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"shop://items/2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		for _, item := range []int{1, 2} {
			if _, err := client.CallAs[Order](t.Context(), s, "order", map[string]int{"item": item}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if change := <-changes; change.Kind != mcp.KindResource || change.URI != "shop://items/2" {
			t.Errorf("told %+v", change)
		}
	})
}

func TestResources(t *testing.T) {
	inEachMode(t, options{}, servertest.Options{}, func(t *testing.T, s *client.Session) {
		read, err := s.ReadResource(t.Context(), "shop://hours", nil)
		if err != nil || !strings.Contains(read.Contents[0].(*mcp.TextResourceContents).Text, "Monday") {
			t.Errorf("the hours are %+v, %v", read, err)
		}
		if item := readItem(t, s, 3); item.Name != "Butter" || item.Price != 350 {
			t.Errorf("the item is %+v", item)
		}
		if _, err := s.ReadResource(t.Context(), "shop://items/99", nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("an item that there is not gives %v", err)
		}
		ids, err := s.CompleteTemplate(t.Context(), "shop://items/{id}", "id", "2", nil, nil)
		if err != nil || !slices.Equal(ids.Values, []string{"2"}) {
			t.Errorf("the ids are %+v, %v", ids, err)
		}
	})
}

func TestRecipe(t *testing.T) {
	inEachMode(t, options{}, servertest.Options{}, func(t *testing.T, s *client.Session) {
		names, err := s.CompletePrompt(t.Context(), "recipe", "item", "b", nil, nil)
		if err != nil || !slices.Equal(names.Values, []string{"Baguette", "Butter"}) {
			t.Errorf("the names are %+v, %v", names, err)
		}
		for occasion, want := range map[string]string{"": "with Butter for today.", "lunch": "with Butter for lunch."} {
			arguments := map[string]string{"item": "Butter"}
			if occasion != "" {
				arguments["occasion"] = occasion
			}
			prompt, err := s.GetPrompt(t.Context(), "recipe", arguments, nil)
			if err != nil {
				t.Fatal(err)
			}
			if text := prompt.Messages[0].Content.(*mcp.TextContent).Text; !strings.Contains(text, want) || !strings.Contains(text, "Goat cheese") {
				t.Errorf("the prompt is %q", text)
			}
		}
	})
}

// What is for the staff does not exist for anybody else.
func TestStaff(t *testing.T) {
	restock := map[string]int{"item": 1, "quantity": 10}
	inEachMode(t, options{}, servertest.Options{}, func(t *testing.T, s *client.Session) {
		if listed := tools(t, s); listed["restock"] != nil || listed["take_stock"] != nil || listed["order"] == nil {
			t.Errorf("customers see %v", listed)
		}
		if _, err := client.CallAs[Item](t.Context(), s, "restock", restock, nil); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("a customer restocks: %v", err)
		}
	})
	inEachMode(t, options{staff: true}, servertest.Options{}, func(t *testing.T, s *client.Session) {
		item, err := client.CallAs[Item](t.Context(), s, "restock", restock, nil)
		if err != nil || item.Stock != 18 {
			t.Errorf("restocking gives %+v, %v", item, err)
		}
		var counts []string
		for chunk, err := range s.Stream(t.Context(), "take_stock", nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			var count Count
			if err := json.Unmarshal(chunk, &count); err != nil {
				t.Fatal(err)
			}
			counts = append(counts, fmt.Sprint(count.Name, " ", count.Stock))
		}
		if want := []string{"Rye bread 18", "Baguette 12", "Butter 20", "Goat cheese 5", "Honey 6", "Green tea 9"}; !slices.Equal(counts, want) {
			t.Errorf("counted %q, want %q", counts, want)
		}
		if stock, err := client.CallAs[Stock](t.Context(), s, "take_stock", nil, nil); err != nil || stock != (Stock{70, 36880}) {
			t.Errorf("the stock is %+v, %v", stock, err)
		}
	})
}

// The cart has a view, which clients of versions with _meta in lists find.
func TestCart(t *testing.T) {
	inEachMode(t, options{}, servertest.Options{}, func(t *testing.T, s *client.Session) {
		in := CartIn{Items: []CartItem{{Item: 2, Quantity: 3}, {Item: 5, Quantity: 1}}}
		cart, err := client.CallAs[Cart](t.Context(), s, "cart", in, nil)
		if err != nil || cart.Total != 1390 || len(cart.Lines) != 2 || cart.Lines[1].Name != "Honey" {
			t.Errorf("the cart is %+v, %v", cart, err)
		}
		if _, err := client.CallAs[Cart](t.Context(), s, "cart", CartIn{Items: []CartItem{{Item: 7, Quantity: 1}}}, nil); err == nil || !strings.Contains(err.Error(), "there is no item 7") {
			t.Errorf("an unknown item gives %v", err)
		}
		ui, err := tools(t, s)["cart"].Meta.ToolUI()
		want := "ui://shop/cart"
		if s.Version() < mcp.Version20250618 {
			want = ""
		}
		if err != nil || ui.ResourceURI != want {
			t.Errorf("the view is %q, %v, want %q", ui.ResourceURI, err, want)
		}
		view, err := s.ReadResource(t.Context(), "ui://shop/cart", nil)
		if err != nil || view.Text() != cartView || view.Contents[0].(*mcp.TextResourceContents).MIMEType != mcp.MIMETypeApp {
			t.Errorf("the view is %v, %v", view, err)
		}
	})
}

// Clients get the descriptions that are written in the source.
func TestDescriptions(t *testing.T) {
	s := servertest.Connect(t, newServer(options{staff: true}), nil)
	listed := tools(t, s)
	for name, tool := range listed {
		if tool.Description == "" {
			t.Errorf("%s is not described", name)
		}
	}
	if order := listed["order"]; !strings.HasPrefix(order.Description, "Orders an item") || !strings.Contains(string(order.InputSchema), "number of pieces") {
		t.Errorf("order is %q with %s", order.Description, order.InputSchema)
	}
	if out, err := exec.Command("go", "tool", "mcpgen", "-check").CombinedOutput(); err != nil {
		t.Errorf("go generate has not been run: %v\n%s", err, out)
	}
}

// The shop is there again when its file is opened again, which one program at a time
// can do.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	first := newServer(options{file: file})
	s := servertest.Connect(t, first, nil)
	if _, err := client.CallAs[Order](t.Context(), s, "order", map[string]int{"item": 1}, nil); err != nil {
		t.Fatal(err)
	}
	second := newServer(options{file: file})
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("two programs have one file: %v", err)
	}
	if err := errors.Join(first.Shutdown(t.Context()), second.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
	if item := readItem(t, servertest.Connect(t, newServer(options{file: file}), nil), 1); item.Stock != 7 {
		t.Errorf("the item is %+v", item)
	}
}

// A shop without a file leaves nothing behind.
func TestTemporaryFile(t *testing.T) {
	for _, name := range []string{"TMPDIR", "TMP"} { // of Unix and of Windows
		t.Setenv(name, t.TempDir())
	}
	shop := newServer(options{})
	if err := shop.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(os.TempDir()); err != nil || len(files) != 1 {
		t.Errorf("while the shop runs there is %v, %v", files, err)
	}
	if err := shop.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(os.TempDir()); err != nil || len(files) != 0 {
		t.Errorf("the shop leaves %v, %v", files, err)
	}
}

func TestFileThatCannotBeOpened(t *testing.T) {
	err := run(t.Context(), options{file: filepath.Join(t.TempDir(), "none", "shop.db")}, "")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program ends with %v", err)
	}
}
