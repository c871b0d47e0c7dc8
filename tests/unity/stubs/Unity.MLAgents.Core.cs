// Stand-ins for ML-Agents: the agent, the academy that steps it, and what the academy tells and is told.
using System;
using System.Collections.Generic;
using Unity.MLAgents.Actuators;
using Unity.MLAgents.Policies;
using Unity.MLAgents.Sensors;
using UnityEngine;
#if TAU_SENTIS
using Unity.Sentis;
#else
using Unity.InferenceEngine;
#endif

namespace Unity.MLAgents
{
    public enum StatAggregationMethod
    {
        Average = 0,
        MostRecent = 1,
        Sum = 2,
        Histogram = 3,
    }

    public sealed class StatsRecorder
    {
        internal StatsRecorder() { }

        public void Add(
            string key, float value, StatAggregationMethod aggregationMethod = StatAggregationMethod.Average) { }
    }

    public sealed class EnvironmentParameters
    {
        internal EnvironmentParameters() { }

        public float GetWithDefault(string key, float defaultValue) => default;

        public IList<string> Keys() => default;

        public void RegisterCallback(string key, Action<float> action) { }
    }

    [DefaultExecutionOrder(-50)]
    public class Academy : IDisposable
    {
        protected Academy() { }

        public event Action OnEnvironmentReset
        {
            add { }
            remove { }
        }

        public event Action<int> AgentPreStep
        {
            add { }
            remove { }
        }

        public static bool IsInitialized => default;

        public static Academy Instance => default;

        public bool IsCommunicatorOn => default;

        public bool AutomaticSteppingEnabled { get; set; }

        public EnvironmentParameters EnvironmentParameters => default;

        public StatsRecorder StatsRecorder => default;

        public int EpisodeCount => default;

        public int StepCount => default;

        public int TotalStepCount => default;

        public int NumAreas => default;

        public int InferenceSeed
        {
            set { }
        }

        public void Dispose() { }

        public void EnvironmentStep() { }
    }

    [Serializable]
    [RequireComponent(typeof(BehaviorParameters))]
    [DefaultExecutionOrder(-50)]
    public class Agent : MonoBehaviour, ISerializationCallbackReceiver, IActionReceiver, IHeuristicProvider
    {
        public int MaxStep;

        public int StepCount => default;

        public int CompletedEpisodes => default;

        public void AddReward(float increment) { }

        public virtual void CollectObservations(VectorSensor sensor) { }

        public void EndEpisode() { }

        public void EpisodeInterrupted() { }

        public float GetCumulativeReward() => default;

        public ActionBuffers GetStoredActionBuffers() => default;

        public virtual void Heuristic(in ActionBuffers actionsOut) { }

        public virtual void Initialize() { }

        public void LazyInitialize() { }

        public virtual void OnActionReceived(ActionBuffers actions) { }

        public void OnAfterDeserialize() { }

        public void OnBeforeSerialize() { }

        public virtual void OnEpisodeBegin() { }

        public void RequestAction() { }

        public void RequestDecision() { }

        public void SetModel(string behaviorName, ModelAsset model, InferenceDevice inferenceDevice = default) { }

        public void SetReward(float reward) { }

        public virtual void WriteDiscreteActionMask(IDiscreteActionMask actionMask) { }

        protected virtual void OnDisable() { }

        protected virtual void OnEnable() { }
    }

    [AddComponentMenu("ML Agents/Decision Requester", 0)]
    [RequireComponent(typeof(Agent))]
    [DefaultExecutionOrder(-10)]
    public class DecisionRequester : MonoBehaviour
    {
        [Range(1, 20)]
        public int DecisionPeriod = 5;

        [Range(0, 19)]
        public int DecisionStep = 0;

        public bool TakeActionsBetweenDecisions = true;
    }

    public interface IMultiAgentGroup : IDisposable
    {
        int GetId();

        void RegisterAgent(Agent agent);

        void UnregisterAgent(Agent agent);
    }

    public class SimpleMultiAgentGroup : IMultiAgentGroup
    {
        public void AddGroupReward(float reward) { }

        public void Dispose() { }

        public void EndGroupEpisode() { }

        public int GetId() => default;

        public void GroupEpisodeInterrupted() { }

        public virtual void RegisterAgent(Agent agent) { }

        public void SetGroupReward(float reward) { }

        public virtual void UnregisterAgent(Agent agent) { }
    }
}
