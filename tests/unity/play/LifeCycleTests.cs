using System;
using System.Collections.Generic;
using System.Linq;
using Tau.Core;
using Tau.Core.Tests;
using Unity.MLAgents;
using UnityEngine;
using UnityEngine.SceneManagement;

namespace Tau.Play
{
    /// <summary>What people and scripts do to a running training: cancel it, destroy it, close its scene.</summary>
    public sealed class LifeCycleTests
    {
        [Test]
        public void CancellingEndsAtOnceAndReportsOnce()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train(
                "--tau-pairs", "4", "--tau-max-concurrent", "2", "--tau-decisions", "50");
            stage.Play(5);
            Assert.True(manager.Cancel(), "nothing to cancel");
            Assert.True(!manager.IsRunning, "still running");
            Assert.True(manager.Report.Cancelled && manager.Report.Decisions == 10L);
            Assert.True(manager.Report.Pairs.All(pair => pair.State == PairState.Cancelled));
            Assert.Sequence(new[] { true, true }, stage.Trainer.Ends.Select(end => end.Interrupted));
            Assert.True(!manager.Cancel(), "cancelled twice");
            stage.Play(3);
            Assert.Equal(1, Stage.Reports());
            stage.AssertQuiet();
        }

        [Test]
        public void ATrainingCanBeginInTheFrameInWhichAnotherWasCancelled()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "4");
            stage.Play(2);
            manager.Cancel();
            manager.StartTraining(TauOptions.Parse(new[] { "--tau-pairs", "2" }));
            stage.Play(3);
            Assert.True(manager.IsRunning, "what was left of the first training has ended the second");
            Assert.Equal(6L, manager.Report.Decisions);
            Assert.Equal(1, Academy.Instance.PreStepListeners);
            stage.AssertQuiet();
        }

        [Test]
        public void ATrainingCanBeginWhileTheEndOfAnotherIsTold()
        {
            var stage = new Stage();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "2", "--tau-decisions", "3");
            var ends = new List<CentralReport>();
            manager.Finished += report =>
            {
                ends.Add(report);
                if (ends.Count == 1)
                {
                    manager.StartTraining(TauOptions.Parse(new[] { "--tau-pairs", "1", "--tau-decisions", "2" }));
                }
            };
            stage.PlayUntil(() => ends.Count == 2);
            Assert.Sequence(new[] { 6L, 2L }, ends.Select(report => report.Decisions));
            stage.AssertQuiet();
        }

        [Test]
        public void CancellingFromAnotherListenerOfTheSameStepIsNoTrouble()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = null;
            Academy.Instance.AgentPreStep += step => manager.Cancel(); // hears of each step before the manager
            Academy.Instance.OnEnvironmentReset += () => manager.Cancel();
            manager = stage.Train("--tau-pairs", "2");
            stage.Play();
            manager.StartTraining(TauOptions.Parse(new[] { "--tau-pairs", "2" }));
            stage.Play();
            Assert.True(!manager.IsRunning, "still running");
            stage.AssertQuiet();
        }

        [Test]
        public void CancellingWhileParametersArriveDropsTheActionsOfThatStep()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "3");
            stage.Play(2);
            Academy.Instance.EnvironmentParameters.RegisterCallback("stop", value => manager.Cancel());
            stage.Trainer.Send("stop", 1f);
            stage.Play(2);
            Assert.Equal(6L, manager.Report.Decisions);
            stage.AssertQuiet();
        }

        [Test]
        public void AnAgentThatIsDestroyedFailsItsPairAndGivesItsTurnAway()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train(
                "--tau-pairs", "3", "--tau-max-concurrent", "1", "--tau-decisions", "5");
            stage.Play(2);
            UnityEngine.Object.Destroy(stage.Agents[0].gameObject);
            stage.Play(4);
            PairMetrics[] pairs = manager.Report.Pairs.ToArray();
            Assert.Equal(PairState.Failed, pairs[0].State);
            Assert.Contains("`TauAgent 0` was destroyed or switched off", pairs[0].Error);
            Assert.True(pairs[1].Decisions > 0, "the next pair never got its turn");
            stage.AssertQuiet();
        }

        [Test]
        public void AnAgentThatIsSwitchedOffInTheEditorFailsItsPairAndTheOthersGoOn()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "3");
            stage.Play(2);
            stage.Agents[1].enabled = false;
            stage.Play(3);
            Assert.Sequence(
                new[] { false, true, false }, manager.Report.Pairs.Select(pair => pair.State == PairState.Failed));
            Assert.Sequence(new[] { 5L, 2L, 5L }, manager.Report.Pairs.Select(pair => pair.Decisions));
        }

        [Test]
        public void WithoutAnyAgentTrainingEndsAndSaysWhy()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train(
                "--tau-pairs", "3", "--tau-max-concurrent", "2", "--tau-decisions", "50");
            stage.Play(2);
            UnityEngine.Object.Destroy(World.All().Single(each => each.name == "Tau Agents"));
            stage.Play(3);
            Assert.True(!manager.IsRunning, "it waits for agents that are gone");
            Assert.True(manager.Report.Pairs.All(pair => pair.State == PairState.Failed && pair.Error != null));
            Assert.Equal(1, Stage.Reports());
            stage.AssertQuiet();
        }

        [Test]
        public void ClosingTheSceneEndsTrainingQuietly()
        {
            Stage stage = Stage.WithTrainer();
            Scene first = SceneManager.GetActiveScene();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "3");
            stage.Play(2);
            SceneManager.SetActiveScene(SceneManager.CreateScene("Other"));
            SceneManager.UnloadSceneAsync(first);
            stage.Play(3);
            Assert.True(!first.isLoaded && World.All().Length == 0, "something is still there");
            Assert.True(!manager.IsRunning && Academy.Instance.PreStepListeners == 0, "still listening");
            Assert.Equal(1, Stage.Reports());
            stage.AssertQuiet();
        }

        [Test]
        public void ANewSceneCanTrainAfterTheOldOneWasClosed()
        {
            Stage stage = Stage.WithTrainer();
            Scene first = SceneManager.GetActiveScene();
            stage.Train("--tau-pairs", "3");
            stage.Play();
            SceneManager.SetActiveScene(SceneManager.CreateScene("Other"));
            SceneManager.UnloadSceneAsync(first);
            stage.Play();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "2");
            stage.Play(3);
            Assert.Equal(6L, manager.Report.Decisions);
            stage.AssertQuiet();
        }

        [Test]
        public void TheEndOfTheGameEndsTrainingWithoutAnotherAcademy()
        {
            Stage stage = Stage.WithTrainer();
            stage.Train("--tau-pairs", "2", "--tau-decisions", "9");
            stage.Play(2);
            stage.Quit();
            stage.RunPosted(); // what the cancelled training left on the main thread's queue
            Assert.True(!Academy.IsInitialized, "a new academy was made");
            Assert.Equal(1, Stage.Reports());
            Assert.True(stage.Trainer.Ends.All(end => end.Interrupted) && stage.Trainer.Ends.Count() == 2);
            stage.AssertQuiet();
        }

        [Test]
        public void ADestroyedManagerLeavesNoAgentAndNoListener()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "2");
            stage.Play();
            UnityEngine.Object.Destroy(manager.gameObject);
            stage.Play(2);
            Assert.Equal(0, stage.Agents.Length);
            Assert.Equal(0, Academy.Instance.PreStepListeners);
            stage.AssertQuiet();
        }
    }
}
