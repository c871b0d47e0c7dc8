using System;
using System.IO;
using System.Linq;
using Tau.Core.Tests;

namespace Tau.Trainer.Tests
{
    public sealed class RunTests
    {
        [Test]
        public void LinesTellWhereARunStands()
        {
            var state = new RunState();
            Assert.Equal(RunPhase.Starting, state.Phase);
            Assert.True(!state.Heard);
            Assert.Equal("loading", state.Take(Event("starting", "\"message\":\"loading\"")));
            Assert.True(state.Heard);
            Assert.Equal("press Play", state.Take(Event("waiting", "\"message\":\"press Play\"")));
            Assert.Equal(RunPhase.Waiting, state.Phase);
            Assert.True(state.Take(Event("pair", "\"pair\":0,\"state\":\"Preparing\"")) == null);
            Assert.Equal(RunPhase.Waiting, state.Phase);
            state.Take(Event("pair", "\"pair\":0,\"state\":\"Training\""));
            Assert.Equal(RunPhase.Training, state.Phase);
            Assert.Equal("careful", state.Take(Event("warning", "\"message\":\"careful\"")));
            Assert.Equal("careful", state.LastWarning);
            state.Take(Event("note", "\"message\":\"saving\""));
            state.Take(Event("pair", "\"pair\":1,\"state\":\"Training\""));
            Assert.Equal(RunPhase.Ending, state.Phase);
            const string Result = "{\"type\":\"result\",\"schema\":1,\"outcome\":\"cancelled\",\"verdict\":\"Exported.\","
                + "\"errors\":[\"pair 1 fell.\"]}";
            Assert.Equal("The run is cancelled. Exported. pair 1 fell.", state.Take(Result));
            Assert.Equal(RunPhase.Ended, state.Phase);
            Assert.True(state.Take("error: pair 1 fell.") == null && state.Ended() == null);
            Assert.Equal("cancelled", state.Outcome);
        }

        [Test]
        public void OtherLinesAreShownAndUnknownOnesIgnored()
        {
            var state = new RunState();
            Assert.Equal("plain words", state.Take("plain words"));
            Assert.True(state.Take("  ") == null && state.Take("{torn") == null && state.Take("{\"type\":\"new\"}") == null);
            Assert.True(state.Take("{\"type\":\"new\",\"schema\":1}") == null);
            Assert.True(state.Take("{\"type\":\"event\",\"schema\":1}") == null);
            Assert.True(state.Take("{\"type\":\"summary\",\"schema\":1}") == null);
            Assert.Equal("slow", state.Take("warning: slow"));
            Assert.Equal("slow", state.LastWarning);
            var later = new RunState();
            Assert.Contains("writes version 2 of its output", later.Take("{\"type\":\"event\",\"schema\":2,\"kind\":\"waiting\"}"));
            Assert.Equal(RunPhase.Starting, later.Phase);
        }

        [Test]
        public void AnEndWithoutAResultIsOneSentence()
        {
            var state = new RunState();
            Assert.Contains("killed or it crashed: start it again.", state.Ended());
            Assert.True(state.Ended() == null && state.Phase == RunPhase.Failed);
            var training = new RunState();
            training.Take(Event("pair", "\"pair\":0,\"state\":\"Training\""));
            Assert.Contains("click Resume", training.Ended());
            var mistaken = new RunState();
            Assert.Equal("port 5004 is taken", mistaken.Take("error: port 5004 is taken"));
            Assert.True(mistaken.Ended() == null && mistaken.Outcome == "failed", "it is said once");
        }

        [Test]
        public void SummariesMakeACurveOfBoundedLength()
        {
            var state = new RunState();
            for (var step = 0; step < 5000; step++)
            {
                state.Take("{\"type\":\"summary\",\"schema\":1,\"behavior\":\"A\",\"step\":" + step
                    + ",\"values\":{\"Environment/Cumulative Reward\":" + step + ".5}}");
            }
            state.Take("{\"type\":\"summary\",\"schema\":1,\"behavior\":\"B\",\"step\":1,\"values\":{}}");
            var curve = state.Curves["A"];
            Assert.True(curve.Count <= 1000 && curve.Count > 500, curve.Count.ToString());
            Assert.Equal(0.0, curve[0].Step);
            Assert.Equal(4999.5, curve.Last().Reward);
            Assert.True(curve.Zip(curve.Skip(1), (left, right) => left.Step < right.Step).All(rises => rises));
            Assert.True(!state.Curves.ContainsKey("B"));
        }

        [Test]
        public void TheBestModelIsTheFinalOneElseTheHighestElseTheLatest()
        {
            using (var place = new Place())
            {
                var models = new[]
                {
                    Model("A/A-1.onnx", 1, 2.0), Model("A/A-2.onnx", 2, 5.0), Model("A/A-3.onnx", 3, 5.0),
                    Model("A/A-4.onnx", 4, null), new ModelCandidate("A", place["A/A-5.onnx"], 5, 9.0, false),
                    new ModelCandidate("B", place.Write("B.onnx"), 9, 100.0, true),
                };
                Assert.Equal(3L, ModelCandidate.Best(models, "A").Step);
                Assert.Equal(3L, ModelCandidate.Best(models.Reverse(), "A").Step);
                Assert.Equal(4L, ModelCandidate.Best(models.Skip(3), "A").Step);
                Assert.True(ModelCandidate.Best(models, "C") == null);
                var final = new ModelCandidate("A", place.Write("A.onnx", "final"), 2, -1.0, true);
                Assert.Equal(final, ModelCandidate.Best(models.Append(final), "A"));
                Assert.Equal(place["Assets/Models/A.onnx"], models[0].CopyTo(place["Assets/Models"]));
                Assert.Equal(place["Assets/Models/A.onnx"], final.CopyTo(place["Assets/Models"]));
                Assert.Equal("final", File.ReadAllText(place["Assets/Models/A.onnx"]));
                Assert.Throws<TrainerException>(() => models[4].CopyTo(place["Assets/Models"]));
                Assert.Equal("final", File.ReadAllText(place["Assets/Models/A.onnx"]));

                ModelCandidate Model(string name, int step, double? reward)
                {
                    return new ModelCandidate("A", place.Write(name), step, reward, false);
                }
            }
        }

        [Test]
        public void RunsAreListedNewestFirstAndTheNextHasAFreeName()
        {
            using (var place = new Place())
            {
                Assert.Equal(0, RunList.Read(place["none"]).Count);
                Assert.Equal("my game-01", RunList.NextId(place["none"], "/x/my game.yaml"));
                place.Write("run-01/configuration.yaml");
                place.Write("run-01/checkpoints/A-1/manifest.json");
                place.Write("run-02/configuration.yaml");
                place.Write("run-02/status.json", "{\"pid\": 7, \"outcome\": null, \"run\": {\"decisions\": 5, \"max_decisions\": 10, "
                    + "\"decisions_per_second\": 2.5, \"eta_s\": 2.0, \"message\": \"x\", \"behaviors\": [{\"mean_reward\": 1.5}]}}");
                place.Write("run-03/something else");
                Directory.SetLastWriteTimeUtc(place["run-01"], DateTime.UtcNow.AddHours(-1));
                var runs = RunList.Read(place.Folder);
                Assert.Sequence(new[] { "run-02", "run-01" }, runs.Select(run => run.Id));
                Assert.True(!runs[0].CanResume && runs[1].CanResume && runs[1].Status == null);
                RunStatus status = runs[0].Status;
                Assert.Equal((7, 5L, 10L, 2.5), (status.Process, status.Decisions, status.MaxDecisions, status.Speed));
                Assert.True(status.SecondsLeft == 2.0 && status.MeanReward == 1.5 && status.Message == "x");
                Assert.Equal("run-04", RunList.NextId(place.Folder, null));
            }
        }

        [Test]
        public void ASessionIsReadAsItWasWritten()
        {
            using (var place = new Place())
            {
                var session = new SessionFile(place["a/session.json"]);
                Assert.Equal(0, session.Process);
                session.Process = 12;
                session["run"] = place.Folder + "\ud800";
                session.Save();
                var again = new SessionFile(place["a/session.json"]);
                Assert.Equal((12, place.Folder + "\ud800", string.Empty), (again.Process, again["run"], again["none"]));
                place.Write("broken", "{\"process\": ");
                Assert.Equal(0, new SessionFile(place["broken"]).Process);
                Assert.True(TrainerRun.TakeOver(place["empty"]) == null);
            }
        }

        [Test]
        public void ARunIsStartedWithBoundValues()
        {
            var options = new LearnOptions { Settings = "/p q/a.yaml", RunId = "-x", Results = "/r s", Resume = true };
            Assert.Sequence(
                new[] { "learn", "/p q/a.yaml", "--env=editor", "--run-id=-x", "--results-dir=/r s", "--log=/l", "--json",
                    "--timeout-wait=600", "--resume" },
                options.Arguments("/l"));
            var build = new LearnOptions { RunId = "b", Results = "r", Build = "/my build", Engines = 4 };
            Assert.Sequence(
                new[] { "learn", "--env=/my build", "--run-id=b", "--results-dir=r", "--log=l", "--json", "--num-envs=4",
                    "--no-graphics" },
                build.Arguments("l"));
        }

        [Test]
        public void AProcessIsFoundByItsNumberAndItsStart()
        {
            using (var place = new Place())
            {
                TrainerProcess sleeper = TrainerProcess.Start("/bin/sleep", new[] { "1000" }, place.Folder);
                try
                {
                    TrainerProcess found = TrainerProcess.Find(sleeper.Id, sleeper.Started);
                    Assert.True(found != null && !found.HasEnded && found.Id == sleeper.Id);
                    Assert.True(TrainerProcess.Find(sleeper.Id, "2001-01-01T00:00:00.0000000Z") == null, "another one");
                    found.Kill();
                    while (!sleeper.HasEnded)
                    {
                        System.Threading.Thread.Sleep(10);
                    }
                    Assert.True(TrainerProcess.Find(sleeper.Id, sleeper.Started) == null);
                }
                finally
                {
                    sleeper.Kill();
                }
            }
        }

        [Test]
        public void WhatDoesNotStartIsOneSentence()
        {
            using (var place = new Place())
            {
                var options = new LearnOptions { RunId = "a", Results = place["results"] };
                var error = Assert.Throws<TrainerException>(
                    () => TrainerRun.Start(place["no tau-train"], options, place.Folder, place["state"]));
                Assert.Contains(place["no tau-train"] + " does not start (", error.Message);
                Assert.True(TrainerRun.TakeOver(place["state"]) == null);
            }
        }

        [Test]
        public void BeforeItHasSaidAnythingATrainerIsKilled()
        {
            using (var place = new Place())
            {
                string silent = place.Write("silent", "#!/bin/sh\nexec sleep 1000\n");
                Tool.RunAsync("/bin/chmod", new[] { "755", silent }, place.Folder, _ => { }, default).Wait();
                var options = new LearnOptions { RunId = "a", Results = place["results"] };
                TrainerRun run = TrainerRun.Start(silent, options, place.Folder, place["state"]);
                run.Stop();
                while (!run.HasEnded)
                {
                    run.Poll();
                    System.Threading.Thread.Sleep(10);
                }
                Assert.Equal(RunPhase.Failed, run.State.Phase);
                Assert.True(!Directory.Exists(place["results"]));
            }
        }

        private static string Event(string kind, string fields)
        {
            return "{\"type\":\"event\",\"schema\":1,\"kind\":\"" + kind + "\",\"fields\":{" + fields + "}}";
        }
    }
}
