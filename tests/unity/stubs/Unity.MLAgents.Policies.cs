// Stand-ins for ML-Agents: what an agent decides with.
using System;
using Unity.MLAgents.Actuators;
using UnityEngine;
#if TAU_SENTIS
using Unity.Sentis;
#else
using Unity.InferenceEngine;
#endif

namespace Unity.MLAgents.Policies
{
    [Serializable]
    public enum BehaviorType
    {
        Default,
        HeuristicOnly,
        InferenceOnly,
    }

    public enum InferenceDevice
    {
        Default = 0,
        ComputeShader = 1,
        Burst = 2,
        PixelShader = 3,
    }

    public enum ObservableAttributeOptions
    {
        Ignore,
        ExcludeInherited,
        ExamineAll,
    }

    [Serializable]
    public class BrainParameters
    {
        public int VectorObservationSize;

        [Range(1, 50)]
        public int NumStackedVectorObservations;

        public string[] VectorActionDescriptions;

        public ActionSpec ActionSpec { get; set; }
    }

    [AddComponentMenu("ML Agents/Behavior Parameters", 0)]
    public class BehaviorParameters : MonoBehaviour
    {
        public int TeamId;

        public ModelAsset Model { get; set; }

        public InferenceDevice InferenceDevice { get; set; }

        public bool DeterministicInference { get; set; }

        public BehaviorType BehaviorType { get; set; }

        public string BehaviorName { get; set; }

        public string FullyQualifiedBehaviorName => default;

        public BrainParameters BrainParameters => default;

        public bool UseChildSensors { get; set; }

        public bool UseChildActuators { get; set; }

        public ObservableAttributeOptions ObservableAttributeHandling { get; set; }

        public bool IsInHeuristicMode() => default;
    }
}
