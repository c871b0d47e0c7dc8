using System;
using System.Linq;
using Tau.Core.Tests;
using UnityEngine;
using UnityEngine.SceneManagement;

namespace Tau.Play
{
    /// <summary>What happens when Play is pressed or a player starts.</summary>
    public sealed class BootstrapTests
    {
        [Test]
        public void AnEmptySceneWithATrainerTrains()
        {
            Stage stage = Stage.WithTrainer();
            new GameObject("Main Camera").AddComponent<Camera>();
            TauBootstrap.Begin(new[] { "game" });
            Assert.Equal(32, stage.Manager.Report.Pairs.Count);
            Assert.True(Application.runInBackground, "it stops while another window is in front");
            Assert.Equal(1, World.Live<Camera>().Length);
            stage.Play(2);
            stage.AssertQuiet();
        }

        [Test]
        public void AnEmptySceneWithoutATrainerWaitsAtItsConsole()
        {
            var stage = new Stage();
            TauBootstrap.Begin(new[] { "game" });
            Assert.True(!stage.Manager.IsRunning && stage.Console.IsOpen);
            Assert.Contains("No trainer is connected.", stage.Console.Lines[0].Text);
        }

        [Test]
        public void ASceneOfSomebodyElseIsLeftAlone()
        {
            Stage stage = Stage.WithTrainer();
            new GameObject("Game").AddComponent<BalanceBall>();
            TauBootstrap.Begin(new[] { "game" });
            Assert.True(stage.Manager == null && stage.Console == null && !Application.runInBackground);
            TauBootstrap.Begin(new[] { "game", "--tau-pairs", "2" });
            Assert.Equal(2, stage.Manager.Report.Pairs.Count, "unless a flag says otherwise");
        }

        [Test]
        public void AFlagTrainsWithoutATrainerAndAPlayerEndsWithItsTraining()
        {
            var stage = new Stage();
            Application.isBatchMode = true;
            TauBootstrap.Begin(new[] { "game", "--tau-pairs=2", "--tau-decisions=3" });
            stage.Play(8);
            Assert.Sequence(new[] { 0 }, Application.Exits);
            stage.AssertQuiet();
        }

        [Test]
        public void APlayerWhosePairsFailEndsWithOne()
        {
            var stage = new Stage();
            Application.isBatchMode = true;
            TauBootstrap.Begin(new[] { "game", "--tau-pairs=2", "--tau-decisions=9" });
            stage.Play();
            UnityEngine.Object.Destroy(stage.Agents[0].gameObject);
            stage.Play(20);
            Assert.Sequence(new[] { 1 }, Application.Exits);
        }

        [Test]
        public void APlayerThatMeetsAMistakeWhileItTrainsEndsWithTwo()
        {
            Stage stage = Stage.WithTrainer();
            Application.isBatchMode = true;
            TauBootstrap.Begin(new[] { "game" });
            stage.Play();
            stage.Trainer.Send("threshold", -1f);
            stage.Play(3);
            Assert.Sequence(new[] { 2 }, Application.Exits);
        }

        [Test]
        public void AMistakeOnTheCommandLineIsLoggedAndShownAndAPlayerEndsWithTwo()
        {
            var stage = new Stage();
            TauBootstrap.Begin(new[] { "game", "--tau-pairs", "none" });
            Assert.Contains("--tau-pairs", Debug.Of("Error").Single());
            Assert.Sequence(new[] { 2 }, Application.Exits);
            Assert.Equal(Debug.Of("Error")[0], stage.Console.Lines.Last().Text);
        }

        [Test]
        public void InTheEditorAMistakeDoesNotEndAnything()
        {
            var stage = new Stage();
            Application.isEditor = true;
            TauBootstrap.Begin(new[] { "editor", "--tau-data", "none.json" });
            Assert.Equal(0, Application.Exits.Count);
            Assert.True(stage.Console.IsOpen, "the console is closed");
        }

        [Test]
        public void WhereNobodyCanTypeWaitingForATrainerIsAMistake()
        {
            var stage = new Stage();
            Application.isBatchMode = true;
            TauBootstrap.Begin(new[] { "game" });
            Assert.Contains("--mlagents-port", Debug.Of("Error").Single());
            Assert.Sequence(new[] { 2 }, Application.Exits);
        }

        [Test]
        public void AnotherSceneThanTheOpenedOneTakesItsPlace()
        {
            var stage = new Stage();
            Scene opened = SceneManager.GetActiveScene();
            TauSceneBuilder.Build(SceneKind.Balance, 3);
            TauBootstrap.Begin(new[] { "game", "--tau-scene", "inference" });
            stage.Play(2);
            Assert.True(!opened.isLoaded && SceneManager.sceneCount == 1);
            Assert.Equal(0, World.Live<BalanceArena>().Length);
            Assert.Equal(1, World.Live<TauAnswerer>().Length);
            Assert.Contains("ask <question>", stage.Console.Lines[0].Text);
            stage.AssertQuiet();
        }

        [Test]
        public void BuildingASceneTwiceAddsNothing()
        {
            foreach (SceneKind kind in Enum.GetValues(typeof(SceneKind)))
            {
                var stage = new Stage();
                TauScene first = TauSceneBuilder.Build(kind, 4);
                int count = World.All().Length;
                Assert.True(first == TauSceneBuilder.Build(kind, 4), kind.ToString());
                Assert.Equal(count, World.All().Length, kind.ToString());
                stage.AssertQuiet();
            }
        }

        [Test]
        public void ASceneFilesSettingsGiveWayToTheCommandLine()
        {
            var stage = new Stage();
            TauScene scene = TauSceneBuilder.Build(SceneKind.Tau);
            Assert.Sequence(new[] { "game" }, scene.Arguments(new[] { "game" }), "nothing is set");
            Stage.Set(scene, "_startAlone", true);
            Stage.Set(scene, "_pairs", 5);
            Stage.Set(scene, "_decisions", 4);
            Stage.Set(scene, "_maxConcurrent", 2);
            TauBootstrap.Begin(new[] { "game", "--tau-agents=3" });
            stage.PlayUntil(() => !stage.Manager.IsRunning);
            Assert.Equal(3, stage.Manager.Report.Pairs.Count, "the command line's");
            Assert.Equal(12L, stage.Manager.Report.Decisions, "the file's");
            Assert.Equal(2, stage.Manager.Report.PeakConcurrency, "the file's");
            stage.AssertQuiet();
        }
    }
}
