using System.Linq;
using Tau.Core;
using Tau.Core.Tests;
using Unity.MLAgents;
using UnityEngine;

namespace Tau.Play
{
    /// <summary>What a connected trainer says: parameters and resets.</summary>
    public sealed class TrainerTests
    {
        [Test]
        public void WhereNothingElseIsSaidTheTrainersParametersAreFollowed()
        {
            Stage stage = new Stage(message => new float[384]);
            Send(stage, ("num_agents", 3f), ("profile", 0f), ("target_sensor", 1f), ("seed", 7f));
            Send(stage, ("max_decisions", 4f));
            ParallelTrainerManager manager = stage.Train();
            stage.Play(8);
            Assert.Equal(3, manager.Report.Pairs.Count);
            Assert.Equal(TauProfile.ByIndex(0f).ActionSize, stage.Trainer.Said[0].Of("target").Length);
            Assert.Equal(6, stage.Trainer.Ends.Count(), "two cuts for each agent");
            Assert.Contains("seed 7", Debug.Of("Log")[0]);
        }

        [Test]
        public void TheCommandLineGoesBeforeTheTrainersParameters()
        {
            Stage stage = Stage.WithTrainer();
            Send(stage, ("num_agents", 3f), ("profile", 0f), ("seed", 7f));
            ParallelTrainerManager manager = stage.Train(
                "--tau-pairs", "2", "--tau-profile", "tau3", "--tau-seed", "5");
            stage.Play();
            Assert.Equal(2, manager.Report.Pairs.Count);
            Assert.Contains("profile tau3, seed 5", Debug.Of("Log")[0]);
        }

        [Test]
        public void CopiesOfATrainingAreaMultiplyTheTrainersAgents()
        {
            Stage stage = Stage.WithTrainer();
            Send(stage, ("num_agents", 3f));
            Academy.Instance.NumAreas = 4;
            Assert.Equal(12, stage.Train().Report.Pairs.Count);
        }

        [Test]
        public void PairsThatTakeTurnsHaveAQuotaAlsoWhereTheTrainerSaysSo()
        {
            Stage stage = Stage.WithTrainer();
            Send(stage, ("num_agents", 3f), ("max_concurrent", 1f));
            stage.Train();
            stage.Play(2);
            Assert.Equal(1, stage.Agents.Count(agent => agent.isActiveAndEnabled));
            TauException mistake = Assert.Throws<TauException>(() => Again(stage, "--tau-decisions", "0"));
            Assert.Contains("would never get their turn", mistake.Message);
        }

        [Test]
        public void AParameterThatCountsNothingIsRefused()
        {
            Stage stage = Stage.WithTrainer();
            Send(stage, ("num_agents", 0f));
            Assert.Contains(
                "`num_agents` is 0; give a number from 1", Assert.Throws<TauException>(() => stage.Train()).Message);
        }

        [Test]
        public void RulesThatChangeHoldFromTheNextStepOn()
        {
            Stage stage = Stage.WithTrainer(0.1f, 0.1f, 0.1f);
            stage.Train("--tau-pairs", "2");
            stage.Play(3);
            stage.Trainer.Send("max_decisions", 2f);
            stage.Play(); // arrives with the exchange, in the middle of this step
            Assert.Equal(0, stage.Trainer.Ends.Count());
            stage.Play();
            Assert.Equal(2, stage.Trainer.Ends.Count(), "episodes that are longer already");
            stage.Play(4);
            Assert.Equal(6, stage.Trainer.Ends.Count());
        }

        [Test]
        public void ARuleThatMeansNothingEndsTrainingWithItsSentence()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "2");
            stage.Play();
            stage.Trainer.Send("threshold", -1f);
            stage.Play(2);
            Assert.True(!manager.IsRunning, "it goes on");
            Assert.Contains("`threshold` is -1", manager.Mistake);
            Assert.Sequence(new[] { manager.Mistake }, Debug.Of("Error"));
            Assert.Equal(0, Academy.Instance.PreStepListeners);
            stage.Play(2);
            Assert.Equal(0, Debug.Of("Exception").Length, "exceptions");
        }

        [Test]
        public void TheFirstResetComesBeforeTheFirstDecisionAndDropsNothing()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "2");
            var resets = 0;
            Academy.Instance.OnEnvironmentReset += () => resets++;
            stage.Play();
            Assert.Equal(1, resets);
            Assert.Equal(2L, manager.Report.Decisions);
            stage.AssertQuiet();
        }

        [Test]
        public void AResetInPlaceOfActionsDropsTheDecisionsAndTheEpisodes()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train("--tau-pairs", "3", "--tau-max-decisions", "4");
            stage.Play(3);
            stage.Trainer.ResetNext = true;
            stage.Play();
            Assert.Equal(9L, manager.Report.Decisions, "an action that nobody decided was paid");
            stage.Play(3);
            Assert.Equal(18L, manager.Report.Decisions);
            Assert.Equal(0, stage.Trainer.Ends.Count(), "the episode did not begin anew");
            stage.Play();
            Assert.Equal(3, stage.Trainer.Ends.Count());
            stage.AssertQuiet();
        }

        [Test]
        public void ResetAfterResetIsNoTrouble()
        {
            Stage stage = Stage.WithTrainer();
            ParallelTrainerManager manager = stage.Train(
                "--tau-pairs", "4", "--tau-max-concurrent", "2", "--tau-decisions", "3");
            for (var i = 0; i < 5; i++)
            {
                stage.Trainer.ResetNext = true;
                stage.Play();
            }
            Assert.Equal(0L, manager.Report.Decisions);
            stage.Play(5);
            Assert.Equal(10L, manager.Report.Decisions);
            stage.AssertQuiet();
        }

        private static void Again(Stage stage, params string[] arguments)
        {
            stage.Manager.Cancel();
            stage.Manager.StartTraining(TauOptions.Parse(arguments));
        }

        private static void Send(Stage stage, params (string, float)[] parameters)
        {
            foreach ((string name, float value) in parameters)
            {
                stage.Trainer.Send(name, value);
            }
        }
    }
}
