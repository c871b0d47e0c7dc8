// Stand-ins for ML-Agents: actions.
using System;
using System.Collections;
using System.Collections.Generic;
using UnityEngine;

namespace Unity.MLAgents.Actuators
{
    public readonly struct ActionSegment<T> : IEnumerable<T>, IEquatable<ActionSegment<T>>
        where T : struct
    {
        public readonly int Offset;
        public readonly int Length;
        public readonly T[] Array;

        public static ActionSegment<T> Empty;

        public ActionSegment(T[] actionArray)
        {
            Offset = default;
            Length = default;
            Array = default;
        }

        public ActionSegment(T[] actionArray, int offset, int length)
        {
            Offset = default;
            Length = default;
            Array = default;
        }

        public T this[int index]
        {
            get => default;
            set { }
        }

        public void Clear() { }

        public bool IsEmpty() => default;

        IEnumerator<T> IEnumerable<T>.GetEnumerator() => default;

        public IEnumerator GetEnumerator() => default;

        public override bool Equals(object obj) => default;

        public bool Equals(ActionSegment<T> other) => default;

        public override int GetHashCode() => default;
    }

    public readonly struct ActionBuffers
    {
        public static ActionBuffers Empty;

        public ActionBuffers(float[] continuousActions, int[] discreteActions) { }

        public ActionBuffers(ActionSegment<float> continuousActions, ActionSegment<int> discreteActions) { }

        public ActionSegment<float> ContinuousActions => default;

        public ActionSegment<int> DiscreteActions => default;

        public void Clear() { }

        public bool IsEmpty() => default;

        public override bool Equals(object obj) => default;

        public override int GetHashCode() => default;
    }

    [Serializable]
    public struct ActionSpec
    {
        public int[] BranchSizes;

        public ActionSpec(int numContinuousActions = 0, int[] discreteBranchSizes = null)
        {
            BranchSizes = discreteBranchSizes;
        }

        public int NumContinuousActions
        {
            get => default;
            set { }
        }

        public int NumDiscreteActions => default;

        public int SumOfDiscreteBranchSizes => default;

        public static ActionSpec MakeContinuous(int numActions) => default;

        public static ActionSpec MakeDiscrete(params int[] branchSizes) => default;
    }

    public interface IDiscreteActionMask
    {
        void SetActionEnabled(int branch, int actionIndex, bool isEnabled);
    }

    public interface IActionReceiver
    {
        void OnActionReceived(ActionBuffers actionBuffers);

        void WriteDiscreteActionMask(IDiscreteActionMask actionMask);
    }

    public interface IHeuristicProvider
    {
        void Heuristic(in ActionBuffers actionBuffersOut);
    }
}
