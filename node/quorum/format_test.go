package quorum

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/meta"
	"seedlog/sim/simdisk"
	"seedlog/storage/record"
)

const threeVoters = "1@one:9093:AAAAAAAAQACAAAAAAAAAAQ, 2@two:9093:AAAAAAAAQACAAAAAAAAAAg,3@[::1]:9093:AAAAAAAAQACAAAAAAAAAAw"

func TestInitialVotersParse(t *testing.T) {
	got, err := ParseInitialVoters(threeVoters, "CONTROLLER")
	voter := func(id int32, host string) record.Voter {
		return record.Voter{ID: id, DirectoryID: meta.UUID{6: 0x40, 8: 0x80, 15: byte(id)}, MaxKRaftVersion: 1,
			Endpoints: []record.VoterEndpoint{{Name: "CONTROLLER", Host: host, Port: 9093}}}
	}
	if diff := cmp.Diff([]record.Voter{voter(1, "one"), voter(2, "two"), voter(3, "::1")}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for bad, want := range map[string]string{
		"":                                                  "write id@host:port:directoryId",
		"1@one:9093":                                        "directory id",
		"x@one:9093:AAAAAAAAQACAAAAAAAAAAQ":                 `"x" is not a node id`,
		"-1@one:9093:AAAAAAAAQACAAAAAAAAAAQ":                `"-1" is not a node id`,
		"1@one:0:AAAAAAAAQACAAAAAAAAAAQ":                    `"0" is not a port`,
		"1@:9093:AAAAAAAAQACAAAAAAAAAAQ":                    "write id@host:port:directoryId",
		"1@one:9093:AAAAAAAAAAAAAAAAAAAAAA":                 "is reserved",
		threeVoters + "," + threeVoters:                     "named twice",
		threeVoters + ",4@four:9093:AAAAAAAAQACAAAAAAAAAAQ": "named twice",
	} {
		if _, err := ParseInitialVoters(bad, "C"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", bad, err, want)
		}
	}
}

// The directory of an initial voter has the id that all others know it by, and every node of
// the cluster begins with the same checkpoint, voter or not.
func TestFormatWithInitialVoters(t *testing.T) {
	voters, err := ParseInitialVoters(threeVoters, "CONTROLLER")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int32{2, 9} {
		onDisk(t, func(tk *task.T, d *simdisk.Mount) {
			spec := formatSpec()
			spec.NodeID, spec.Voters, spec.Initial, spec.ClusterID = id, InitialVoters, voters, "AAAAAAAAQACAAAAAAAAAAA"
			ids, err := Format(tk, d, spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := ids["/a"].DirectoryID == voters[1].DirectoryID; got != (id == 2) {
				t.Errorf("node %d: directory id %v", id, ids["/a"].DirectoryID)
			}
			if ids["/b"].DirectoryID == voters[1].DirectoryID {
				t.Error("two directories with one id")
			}
			s, err := readSnapshot(tk, d, "/a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(voters, s.Voters); diff != "" || s.KRaftVersion != 1 {
				t.Error(s.KRaftVersion, diff)
			}
		})
	}
}

// With static voters, or to join a quorum, nothing is said about voters: kraft.version is 0
// until the log says otherwise.
func TestFormatWithoutVoters(t *testing.T) {
	onDisk(t, func(tk *task.T, d *simdisk.Mount) {
		spec := formatSpec()
		spec.Voters = NoVoters
		var err error
		if spec.Records, err = meta.InitialRecords("4.1", nil, false); err != nil {
			t.Fatal(err)
		}
		if _, err := Format(tk, d, spec); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Stat(tk, "/a/__cluster_metadata-0"); !errors.Is(err, disk.ErrNotExist) {
			t.Errorf("a metadata log: %v", err)
		}
		records, err := readBootstrap(tk, d, "/b")
		if err != nil || records[0].Body.(*meta.FeatureLevelRecord).FeatureLevel != 27 {
			t.Errorf("%v %v", records, err)
		}
	})
}
