using System;
using System.Collections.Generic;
using System.Linq;
using Tau.Core;
using Tau.Core.Tests;
using Unity.MLAgents;
using Unity.MLAgents.Policies;
using UnityEngine;

namespace Tau.Play
{
    /// <summary>An agent by itself, with the academy and a trainer at the other end.</summary>
    public sealed class AgentTests
    {
        private const string Own = "VectorSensor_size384";

        private static readonly TauProfile Small = TauProfile.Get("tau3");

        private readonly List<float[]> _answers = new List<float[]>();

        [Test]
        public void ARequestIsAnsweredOnceInItsStep()
        {
            Stage stage = Stage.WithTrainer(0.5f, -0.5f, 2f);
            TauAgent agent = Made(stage);
            Ask(agent);
            stage.Play(1);
            Assert.Equal(1, _answers.Count);
            Assert.Sequence(new[] { 0.5f, -0.5f, 2f }, _answers[0], "as the trainer sent it, not clipped");
            Assert.True(!agent.IsDeciding, "the decision is still open");
            stage.Play(3);
            Assert.Equal(1, _answers.Count, "answers without a request");
            stage.AssertQuiet();
        }

        [Test]
        public void AnActionThatNobodyAskedForIsDropped()
        {
            Stage stage = Stage.WithTrainer(0.5f, 0.5f, 0.5f);
            TauAgent agent = Made(stage);
            agent.RequestAction();
            stage.Play();
            Assert.Equal(0, _answers.Count);
        }

        [Test]
        public void AResetInPlaceOfActionsIsNoAnswer()
        {
            Stage stage = Stage.WithTrainer(0.5f, 0.5f, 0.5f);
            TauAgent agent = Made(stage);
            stage.Trainer.ResetNext = true;
            Ask(agent);
            stage.Play();
            Assert.Equal(0, _answers.Count);
            Assert.True(!agent.IsDeciding, "the decision is still owed");
            Ask(agent);
            stage.Play();
            Assert.Equal(1, _answers.Count, "after the reset");
        }

        [Test]
        public void TheTargetGoesBeforeThePromptOnTheWire()
        {
            Stage stage = Stage.WithTrainer();
            Ask(Made(stage, true));
            stage.Play();
            AgentMessage said = stage.Trainer.Said.Single();
            Assert.Sequence(new[] { TauAgent.TargetSensorName, Own }, said.Observations.Select(each => each.Name));
            Assert.Sequence(Target(), said.Of(TauAgent.TargetSensorName), "target");
            Assert.Sequence(Prompt(), said.Of(Own), "prompt");
            stage.AssertQuiet();
        }

        [Test]
        public void UnlessItIsAskedForTheTargetIsNotSent()
        {
            Stage stage = Stage.WithTrainer();
            Ask(Made(stage));
            stage.Play();
            Assert.Sequence(new[] { Own }, stage.Trainer.Said.Single().Observations.Select(each => each.Name));
        }

        [Test]
        public void TheTrainerKnowsTheAgentByNameSizesAndActions()
        {
            TauAgent agent = TauAgent.Create(null, "Agent", TauProfile.Get("tau384"), false);
            var behavior = agent.GetComponent<BehaviorParameters>();
            Assert.Equal("TauAgent", behavior.BehaviorName);
            Assert.Equal(BehaviorType.Default, behavior.BehaviorType);
            Assert.Equal(384, behavior.BrainParameters.VectorObservationSize);
            Assert.Equal(1, behavior.BrainParameters.NumStackedVectorObservations);
            Assert.Equal(384, behavior.BrainParameters.ActionSpec.NumContinuousActions);
            Assert.Equal(0, agent.MaxStep);
            Assert.True(!agent.isActiveAndEnabled, "an agent plays before its pair activates it");
        }

        [Test]
        public void AnEpisodeThatEndsInsideTheActionSendsItsRewardAndItsLastPrompt()
        {
            Stage stage = Stage.WithTrainer();
            TauAgent agent = Made(stage, true);
            agent.Connect(output =>
            {
                agent.SetReward(0.25f);
                agent.EndEpisode();
            });
            Ask(agent);
            stage.Play();
            AgentMessage end = stage.Trainer.Ends.Single();
            Assert.True(!end.Interrupted, "a real end was reported as a cut");
            Assert.Equal(0.25f, end.Reward);
            Assert.Sequence(Prompt(), end.Of(Own), "last prompt");
            Assert.Sequence(Target(), end.Of(TauAgent.TargetSensorName), "last target");
            Assert.Equal(1, stage.Trainer.Exchanges.Count, "it goes with the next exchange");
            Ask(agent);
            stage.Play();
            Assert.Sequence(new[] { true, false }, stage.Trainer.Exchanges[1].Select(each => each.Done));
            stage.AssertQuiet();
        }

        [Test]
        public void DeactivatingCutsTheEpisodeWithTheRewardThatIsNotSentYet()
        {
            Stage stage = Stage.WithTrainer();
            TauAgent agent = Made(stage);
            agent.Connect(output => agent.SetReward(-0.5f));
            Ask(agent);
            stage.Play();
            agent.Deactivate();
            AgentMessage end = stage.Trainer.Ends.Single();
            Assert.True(end.Interrupted, "the cut was reported as a real end");
            Assert.Equal(-0.5f, end.Reward);
            Assert.True(!agent.isActiveAndEnabled, "still active");
        }

        [Test]
        public void DeactivatingTwiceOrAfterTheEndSaysNothingMore()
        {
            Stage stage = Stage.WithTrainer();
            TauAgent agent = Made(stage);
            agent.Connect(output => agent.EpisodeInterrupted());
            Ask(agent);
            stage.Play();
            agent.Deactivate();
            agent.Deactivate();
            Assert.Equal(1, stage.Trainer.Ends.Count());
        }

        [Test]
        public void ADestroyedAgentIsDeactivatedWithoutAnError()
        {
            Stage stage = Stage.WithTrainer();
            TauAgent agent = Made(stage);
            Ask(agent);
            stage.Play();
            UnityEngine.Object.DestroyImmediate(agent.gameObject);
            agent.Deactivate();
            Assert.Throws<MissingReferenceException>(agent.Activate);
            stage.AssertQuiet();
        }

        [Test]
        public void WhoeverAsksAnAgentThatIsGoneIsTold()
        {
            Stage stage = Stage.WithTrainer();
            TauAgent agent = Made(stage);
            agent.gameObject.SetActive(false);
            Assert.Contains("`Agent`", Assert.Throws<TauException>(() => Ask(agent)).Message);
            Assert.True(!agent.IsDeciding, "it owes an answer that it cannot give");
            UnityEngine.Object.DestroyImmediate(agent.gameObject);
            Assert.Throws<TauException>(() => Ask(agent));
        }

        [Test]
        public void WithoutATrainerItActsWithinTheRangeAndEarnsNothing()
        {
            var stage = new Stage();
            TauAgent agent = Made(stage);
            for (var i = 0; i < 20; i++)
            {
                Ask(agent);
                stage.Play();
            }
            Assert.Equal(20, _answers.Count);
            Assert.True(_answers.All(each => each.All(value => value >= -1f && value <= 1f)), "out of range");
            Assert.True(_answers.Select(each => each[0]).Distinct().Count() > 10, "always the same");
            Assert.Equal(0f, agent.Reward, "rewards are the trainer's affair");
        }

        private static float[] Prompt()
        {
            return Enumerable.Range(0, TauProfile.EmbeddingSize).Select(each => each / 1000f).ToArray();
        }

        private static float[] Target()
        {
            return new[] { 0.1f, 0.2f, 0.3f };
        }

        private static void Ask(TauAgent agent)
        {
            agent.RequestDecision(Prompt(), Target());
        }

        private TauAgent Made(Stage stage, bool targetSensor = false)
        {
            Assert.True(stage.Agents.Length == 0, "one agent at a time");
            TauAgent agent = TauAgent.Create(null, "Agent", Small, targetSensor);
            agent.Connect(output => _answers.Add((float[])output.Clone()));
            agent.Activate();
            stage.Play(); // the first step resets everybody, and with it drops what was asked for before
            return agent;
        }
    }
}
