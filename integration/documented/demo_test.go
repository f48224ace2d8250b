package documented

import (
	"os/exec"
	"regexp"
	"testing"
)

func TestEveryFlagOfTheDemoIsInTheREADME(t *testing.T) {
	out, _ := exec.Command("go", "run", root+"/cmd/e2b-demo", "-h").CombinedOutput()
	readme := page(t, "README.md")
	seen := 0
	for _, flag := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(string(out), -1) {
		seen++
		if !has(readme, "-"+flag[1]) {
			t.Errorf("the README has no `-%s`", flag[1])
		}
	}
	if seen < 9 {
		t.Errorf("only %d flags were found:\n%s", seen, out)
	}
}
