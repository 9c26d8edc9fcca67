package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

// matrix is shared by the tests, so that each attack is made once.
var matrix *Matrix

func TestMain(m *testing.M) {
	if done, err := runRole(context.Background()); done || err != nil {
		exit(err)
	}
	quiet()
	leaktest.MainOf(func() int {
		matrix = newMatrix()
		defer matrix.Close()
		return m.Run()
	})
}

// TestMatrix makes all attacks. This module must be safe, and the careless peer must be unsafe.
// Only the cases about the meaning of texts are not applicable.
func TestMatrix(t *testing.T) {
	for _, c := range matrix.cases {
		t.Run(c.ID, func(t *testing.T) {
			var others []Verdict
			for _, p := range matrix.peers {
				verdict, err := matrix.verdict(t.Context(), c, p)
				if err != nil {
					t.Fatal(err)
				}
				others = append(others, verdict)
				switch p {
				case matrix.peers[0]:
					if verdict == Unsafe || verdict == NotApplicable && c.Expected != passedOn {
						t.Errorf("%s is %s", p.Name, verdict)
					}
				case matrix.careless():
					if verdict != Unsafe {
						t.Errorf("the case does not find what the careless peer does: %s", verdict)
					}
				}
			}
			t.Log(others)
		})
	}
}

// TestCases checks that the cases are the cases of MCPSEC 1.1.0, followed by the advisories.
func TestCases(t *testing.T) {
	counts := []int{8, 7, 6, 8, 5, 5, 5, 4, 6, 4, 3, 3}
	var want []string
	for class, count := range counts {
		for n := range count {
			want = append(want, fmt.Sprintf("A%d.%d", class+1, n+1))
		}
	}
	if len(want) != 64 {
		t.Fatalf("MCPSEC has 64 cases, not %d", len(want))
	}
	want = append(want, "CVE-2026-25536", "CVE-2026-27896", "CVE-2026-52869", "CVE-2026-59951", "CVE-2026-116686",
		"CVE-2026-63119", "CVE-2026-51994", "CVE-2026-79747")
	var got []string
	for _, c := range matrix.cases {
		got = append(got, c.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the cases are %v, want %v", got, want)
	}
}

// TestSecurityPage checks that SECURITY.md has the table that this program prints, except the
// date and the versions.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("../../../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := matrix.markdown(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(printed, heading)
	if !strings.Contains(string(page), "\n"+dated) || !strings.Contains(string(page), "\n"+heading+want) {
		t.Errorf("SECURITY.md has another table. Replace it with this one:\n\n%s", printed)
	}
}
