using System;
using Tau.Core;
using Unity.MLAgents;
using Unity.MLAgents.Actuators;
using Unity.MLAgents.Policies;
using Unity.MLAgents.Sensors;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// The acting side of a pair: observes a prompt's embedding (384 floats), answers with a vector in [-1, 1], and
    /// passes the answer on. Its trainer controls when it decides and what reward it gets.
    /// </summary>
    /// <remarks>
    /// It has no DecisionRequester and no step limit. ML-Agents' own <c>SetReward</c>, <c>EndEpisode</c> and
    /// <c>EpisodeInterrupted</c> are the methods of the same name in <see cref="ITauAgent"/>.
    /// </remarks>
    [AddComponentMenu("Tau/Tau Agent")]
    [DisallowMultipleComponent]
    public sealed class TauAgent : Agent, ITauAgent
    {
        /// <summary>Name of the behavior, which a trainer's settings must use.</summary>
        public const string BehaviorName = "TauAgent";

        /// <summary>Name of the sensor with the answer's vector, which a policy must never see.</summary>
        public const string TargetSensorName = "target";

        private float[] _prompt = new float[TauProfile.EmbeddingSize];
        private float[] _target = Array.Empty<float>();
        private float[] _output = Array.Empty<float>();
        private VectorSensorComponent _targetSensor;
        private Action<float[]> _answered;
        private string _hostName = "";
        private bool _open;
        private bool _acted;

        /// <summary>Whether an answer is pending.</summary>
        public bool IsDeciding => _open;

        /// <summary>A new agent, complete but not active: its pair activates it.</summary>
        /// <param name="parent">Its parent in the scene; null: the root.</param>
        /// <param name="name">Name of its game object.</param>
        /// <param name="profile">Defines the number of continuous actions.</param>
        /// <param name="targetSensor">Also send the answer's vector, as the sensor <c>target</c>.</param>
        public static TauAgent Create(Transform parent, string name, TauProfile profile, bool targetSensor)
        {
            var host = new GameObject(name);
            host.SetActive(false); // before anything is added: ML-Agents reads the specification when the agent wakes
            host.transform.SetParent(parent, false);
            Configure(host.AddComponent<BehaviorParameters>(), profile);
            VectorSensorComponent sensor = targetSensor ? AddTargetSensor(host, profile) : null;
            var agent = host.AddComponent<TauAgent>();
            agent.MaxStep = 0;
            agent._hostName = name;
            agent._targetSensor = sensor;
            agent._target = new float[profile.ActionSize];
            agent._output = new float[profile.ActionSize];
            return agent;
        }

        /// <summary>Sends every answer to <paramref name="answered"/> from now on.</summary>
        /// <param name="answered">Gets the raw action; the array is reused for the next one.</param>
        public void Connect(Action<float[]> answered)
        {
            _answered = answered ?? throw new ArgumentNullException(nameof(answered));
        }

        /// <summary>Joins the game: from now on the trainer knows this agent.</summary>
        public void Activate()
        {
            gameObject.SetActive(true);
        }

        /// <summary>
        /// Leaves the game. Sends the last reward to the trainer and reports the episode as cut: just disabling the
        /// agent would report a real end.
        /// </summary>
        public void Deactivate()
        {
            if (this == null)
            {
                return; // its scene was closed
            }
            if (_acted && gameObject.activeSelf && Academy.IsInitialized)
            {
                EpisodeInterrupted();
            }
            gameObject.SetActive(false);
            _open = false;
            _acted = false;
        }

        /// <summary>Asks for an answer to a prompt in the running step of the academy.</summary>
        /// <param name="prompt">Embedding, 384 floats; kept until the next prompt, not changed.</param>
        /// <param name="target">The answer's vector, for the sensor <c>target</c>; kept, not changed.</param>
        /// <exception cref="TauException">
        /// The agent was destroyed or disabled, in the editor or by a script: there would be no answer.
        /// </exception>
        public void RequestDecision(float[] prompt, float[] target)
        {
            if (this == null || !isActiveAndEnabled)
            {
                throw new TauException(
                    $"The agent `{_hostName}` was destroyed or disabled while it was in use; do not change it.");
            }
            _prompt = prompt;
            _target = target;
            _open = true;
            RequestDecision();
        }

        /// <summary>An episode starts, or the trainer has reset the environment: no answer is pending any
        /// more.</summary>
        public override void OnEpisodeBegin()
        {
            _open = false;
        }

        /// <summary>Sends the running prompt: when a decision is due, and once more when an episode ends.</summary>
        public override void CollectObservations(VectorSensor sensor)
        {
            if (sensor == null)
            {
                return; // ML-Agents could not set up the agent, because a model does not load
            }
            sensor.AddObservation(_prompt);
            if (_targetSensor != null)
            {
                _targetSensor.GetSensor().AddObservation(_target);
            }
        }

        /// <summary>Passes the action on, if one is pending.</summary>
        /// <remarks>
        /// If a reset arrives instead of actions, the step has an action without a decision; it is dropped.
        /// </remarks>
        public override void OnActionReceived(ActionBuffers actions)
        {
            if (!_open || _answered == null)
            {
                return;
            }
            _open = false;
            _acted = true;
            ActionSegment<float> action = actions.ContinuousActions;
            for (var i = 0; i < _output.Length; i++)
            {
                _output[i] = action[i];
            }
            _answered(_output);
        }

        /// <summary>Acts if there is neither a trainer nor a model: uniform in [-1, 1].</summary>
        public override void Heuristic(in ActionBuffers actionsOut)
        {
            ActionSegment<float> action = actionsOut.ContinuousActions;
            for (var i = 0; i < action.Length; i++)
            {
                action[i] = UnityEngine.Random.Range(-1f, 1f);
            }
        }

        /// <summary>Gives a behavior the name, sensors and actions of this agent.</summary>
        internal static void Configure(BehaviorParameters behavior, TauProfile profile)
        {
            behavior.BehaviorName = BehaviorName;
            behavior.TeamId = 0;
            behavior.BehaviorType = BehaviorType.Default;
            behavior.UseChildSensors = false;
            behavior.UseChildActuators = false;
            behavior.BrainParameters.VectorObservationSize = TauProfile.EmbeddingSize;
            behavior.BrainParameters.NumStackedVectorObservations = 1;
            behavior.BrainParameters.ActionSpec = ActionSpec.MakeContinuous(profile.ActionSize);
        }

        private static VectorSensorComponent AddTargetSensor(GameObject host, TauProfile profile)
        {
            var sensor = host.AddComponent<VectorSensorComponent>();
            sensor.SensorName = TargetSensorName;
            sensor.ObservationSize = profile.ActionSize;
            return sensor;
        }
    }
}
