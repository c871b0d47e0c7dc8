using System.Collections.Generic;
using System.Linq;
using Tau.Core.Tests;
using Unity.MLAgents;
using Unity.MLAgents.Actuators;
using Unity.MLAgents.Policies;
using Unity.MLAgents.Sensors;
using UnityEngine;

namespace Tau.Play
{
    /// <summary>The engine and ML-Agents of these tests keep the rules that the game's scripts rely on.</summary>
    public sealed class FakeTests
    {
        [Test]
        public void ComponentsWakeAreEnabledStartAndEndInUnitysOrder()
        {
            var stage = new Stage();
            var told = new GameObject("A").AddComponent<Told>();
            stage.Play();
            told.enabled = false;
            told.enabled = true;
            UnityEngine.Object.Destroy(told.gameObject);
            Assert.True(told != null, "destroyed before the end of the frame");
            stage.Play();
            Assert.True(told == null, "not destroyed");
            Assert.Sequence(
                "Awake OnEnable Start FixedUpdate Update OnDisable OnEnable FixedUpdate Update OnDisable OnDestroy"
                    .Split(' '),
                told.Heard);
        }

        [Test]
        public void AComponentOfAnInactiveObjectWakesWithIt()
        {
            var stage = new Stage();
            var host = new GameObject("A");
            host.SetActive(false);
            var told = host.AddComponent<Told>();
            stage.Play();
            Assert.Equal(0, told.Heard.Count);
            host.SetActive(true);
            Assert.Sequence(new[] { "Awake", "OnEnable" }, told.Heard);
        }

        [Test]
        public void AScriptsExceptionIsLoggedAndTheFrameGoesOn()
        {
            var stage = new Stage();
            Academy.Instance.AgentPreStep += step => throw new System.InvalidOperationException("in a step");
            var told = new GameObject("A").AddComponent<Told>();
            stage.Play();
            Assert.Contains("in a step", Debug.Of("Exception").Single());
            Assert.True(told.Heard.Contains("Update"), "no update");
        }

        [Test]
        public void BeingDoneTwiceIsSaidOnceUntilTheNextObservation()
        {
            Stage stage = Stage.WithTrainer(1f);
            Doer agent = Made();
            agent.EndEpisode();
            agent.EpisodeInterrupted();
            Assert.Equal(1, stage.Trainer.Ends.Count());
            agent.RequestDecision();
            stage.Play();
            agent.EpisodeInterrupted();
            Assert.Sequence(new[] { false, true }, stage.Trainer.Ends.Select(end => end.Interrupted));
        }

        [Test]
        public void BeingDoneDropsARequestAndEnablingAnewGivesANewNumber()
        {
            Stage stage = Stage.WithTrainer(1f);
            Doer agent = Made();
            int number = agent.Number;
            agent.RequestDecision();
            agent.enabled = false;
            agent.enabled = true;
            stage.Play();
            Assert.True(agent.Number > number, "the same number");
            Assert.Equal(0, agent.Acted);
        }

        [Test]
        public void TheFirstAgentExchangesForAllAndAResetBringsZeros()
        {
            Stage stage = Stage.WithTrainer(1f);
            Doer[] agents = { Made(), Made() };
            stage.Play();
            foreach (Doer agent in agents)
            {
                agent.RequestDecision();
            }
            stage.Trainer.ResetNext = true;
            int began = agents[0].Began;
            stage.Play();
            Assert.Sequence(new[] { 2 }, stage.Trainer.Exchanges.Select(batch => batch.Length));
            Assert.Equal(began + 1, agents[0].Began);
            Assert.Sequence(new[] { 0f, 0f }, agents.Select(agent => agent.Last), "actions");
        }

        [Test]
        public void TooFewObservationsAreFilledUpWithZerosAndAWarning()
        {
            Stage stage = Stage.WithTrainer(1f);
            Doer agent = Made(4);
            agent.RequestDecision();
            stage.Play();
            Assert.Sequence(new[] { 7f, 0f, 0f, 0f }, stage.Trainer.Said[0].Observations[0].Values);
            Assert.Contains("Fewer observations (1)", Debug.Of("Warning").Single());
        }

        [Test]
        public void SensorsAreInTheOrderOfTheInvariantCulture()
        {
            string[] names = { "VectorSensor_size384", "target", "a", "B", "b", "a1", "a_1" };
            var sensors = new List<ISensor>(names.Select(name => new VectorSensor(1, name)));
            SensorNames.Sort(sensors);
            Assert.Sequence(
                new[] { "a", "a_1", "a1", "b", "B", "target", "VectorSensor_size384" },
                sensors.Select(sensor => sensor.GetName()));
        }

        [Test]
        public void AStepInsideAStepIsRefused()
        {
            var stage = new Stage();
            Academy.Instance.AgentPreStep += step => Academy.Instance.EnvironmentStep();
            stage.Play();
            Assert.Contains("EnvironmentStep called recursively", Debug.Of("Exception").Single());
        }

        private static Doer Made(int observations = 1)
        {
            var host = new GameObject("Doer");
            host.SetActive(false);
            var behavior = host.AddComponent<BehaviorParameters>();
            behavior.BrainParameters.VectorObservationSize = observations;
            behavior.BrainParameters.ActionSpec = ActionSpec.MakeContinuous(1);
            var agent = host.AddComponent<Doer>();
            host.SetActive(true);
            return agent;
        }

        private sealed class Doer : Agent
        {
            public int Acted { get; private set; }

            public int Began { get; private set; }

            public float Last { get; private set; } = -1f;

            public override void OnEpisodeBegin()
            {
                Began++;
            }

            public override void CollectObservations(VectorSensor sensor)
            {
                sensor.AddObservation(7f);
            }

            public override void OnActionReceived(ActionBuffers actions)
            {
                Acted++;
                Last = actions.ContinuousActions[0];
            }
        }

        private sealed class Told : MonoBehaviour
        {
            public List<string> Heard { get; } = new List<string>();

            private void Awake() => Heard.Add("Awake");

            private void OnEnable() => Heard.Add("OnEnable");

            private void Start() => Heard.Add("Start");

            private void FixedUpdate() => Heard.Add("FixedUpdate");

            private void Update() => Heard.Add("Update");

            private void OnDisable() => Heard.Add("OnDisable");

            private void OnDestroy() => Heard.Add("OnDestroy");
        }
    }
}
