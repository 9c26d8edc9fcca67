// Package pagetest checks the files of web pages.
package pagetest

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// reference matches a loaded file: an attribute, or an import of a module.
	reference = regexp.MustCompile(`(?:href|src)="([^"#]*)"|from "\./([^"]*)"|url\(([^)]*)\)`)
	// inline matches inline scripts and styles, which the Content-Security-Policy blocks.
	inline = regexp.MustCompile(`(?i)<style|<script[^>]*>[^<]|\sstyle=|\son\w+=|javascript:`)
	// makesMarkup matches what creates markup from text.
	makesMarkup = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function|setHTML`)
)

// maxLines is the length of the longest file.
const maxLines = 250

// Check reports a file that a page loads and that does not exist, is elsewhere, has inline scripts or styles, creates markup from
// text or is too long, and a file of its folder web that the page does not load.
func Check(t *testing.T, page http.Handler, files fs.FS) {
	t.Helper()
	loaded := map[string]bool{"": true}
	for todo := []string{""}; len(todo) > 0; todo = todo[1:] {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost:8900/"+todo[0], nil))
		text := w.Body.String()
		if w.Code != http.StatusOK {
			t.Errorf("%q is loaded, and is not there: %d", todo[0], w.Code)
		}
		if found := inline.FindString(text); found != "" && path.Ext(todo[0]) != ".js" {
			t.Errorf("%q holds %q", todo[0], found)
		}
		if found := makesMarkup.FindString(text); found != "" {
			t.Errorf("%q holds %s", todo[0], found)
		}
		if lines := strings.Count(text, "\n"); lines > maxLines {
			t.Errorf("%q has %d lines", todo[0], lines)
		}
		for _, match := range reference.FindAllStringSubmatch(text, -1) {
			name := match[1] + match[2] + match[3]
			if strings.ContainsAny(name, ":/") {
				t.Errorf("%q loads %q from elsewhere", todo[0], name)
			}
			if name != "" && !loaded[name] {
				loaded[name] = true
				todo = append(todo, name)
			}
		}
	}
	own, err := fs.ReadDir(files, "web")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range own {
		if name := file.Name(); !loaded[name] && name != "index.html" {
			t.Errorf("nothing loads %s", name)
		}
	}
	if len(loaded) < 10 {
		t.Errorf("only %d files are loaded", len(loaded))
	}
}
