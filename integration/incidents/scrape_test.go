package incidents

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// series are the numbers of one scrape, by name and labels as Prometheus writes
// them.
type series map[string]float64

// parseSeries reads the text format of Prometheus.
func parseSeries(text string) series {
	all := series{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			all[line[:at]] = value
		}
	}
	return all
}

// selector is a selector of PromQL: a name, and labels with =, !=, =~ and !~.
type selector struct {
	name   string
	labels []matcher
}

type matcher struct {
	label   string
	pattern *regexp.Regexp
	unlike  bool
}

var (
	selectorForm = regexp.MustCompile(`^([a-z0-9_]+)(?:\{(.*)\})?$`)
	labelForm    = regexp.MustCompile(`([a-zA-Z_]+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"`)
)

// parseSelector panics on what is none: it stands in a table of these tests.
func parseSelector(text string) selector {
	found := selectorForm.FindStringSubmatch(text)
	if found == nil {
		panic(fmt.Sprintf("no selector: %q", text))
	}
	s := selector{name: found[1]}
	for _, label := range labelForm.FindAllStringSubmatch(found[2], -1) {
		pattern := label[3]
		if !strings.HasSuffix(label[2], "~") {
			pattern = regexp.QuoteMeta(pattern)
		}
		s.labels = append(s.labels, matcher{label[1], regexp.MustCompile("^(?:" + pattern + ")$"), label[2][0] == '!'})
	}
	return s
}

// values are those of all series that the selector selects.
func (s selector) values(of series) map[string]float64 {
	selected := map[string]float64{}
	for key, value := range of {
		found := selectorForm.FindStringSubmatch(key)
		if found == nil || found[1] != s.name {
			continue
		}
		labels := map[string]string{}
		for _, label := range labelForm.FindAllStringSubmatch(found[2], -1) {
			labels[label[1]] = label[3]
		}
		fits := true
		for _, m := range s.labels {
			fits = fits && m.pattern.MatchString(labels[m.label]) != m.unlike
		}
		if fits {
			selected[key] = value
		}
	}
	return selected
}
