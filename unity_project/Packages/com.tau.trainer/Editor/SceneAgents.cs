using System.Collections.Generic;
using System.IO;
using System.Linq;
using Unity.MLAgents;
using Unity.MLAgents.Actuators;
using Unity.MLAgents.Policies;
using Unity.MLAgents.Sensors;
using UnityEditor;
using UnityEngine;
using UnityEngine.SceneManagement;

namespace Tau.Trainer.Editor
{
    /// <summary>The agents of the open scenes.</summary>
    internal static class SceneAgents
    {
        /// <summary>All Behavior Parameters, also of inactive objects.</summary>
        public static BehaviorParameters[] Find()
        {
            return Enumerable.Range(0, SceneManager.sceneCount)
                .Select(SceneManager.GetSceneAt)
                .Where(scene => scene.isLoaded)
                .SelectMany(scene => scene.GetRootGameObjects())
                .SelectMany(root => root.GetComponentsInChildren<BehaviorParameters>(true))
                .ToArray();
        }

        /// <summary>What the core needs to know of an agent.</summary>
        public static BehaviorFacts Facts(BehaviorParameters agent)
        {
            BrainParameters brain = agent.BrainParameters;
            var actions = new List<ActionSpec> { brain.ActionSpec };
            actions.AddRange(agent.GetComponents<ActuatorComponent>().Select(actuator => actuator.ActionSpec));
            SensorComponent[] sensors = agent.UseChildSensors
                ? agent.GetComponentsInChildren<SensorComponent>()
                : agent.GetComponents<SensorComponent>();
            return new BehaviorFacts
            {
                Name = agent.BehaviorName,
                Place = agent.gameObject.name,
                Team = agent.TeamId,
                VectorSize = brain.VectorObservationSize * brain.NumStackedVectorObservations,
                Sensors = sensors.Select(sensor => sensor.GetType().Name).ToArray(),
                Continuous = actions.Sum(spec => spec.NumContinuousActions),
                Branches = actions.SelectMany(spec => spec.BranchSizes ?? new int[0]).ToArray(),
                FixedType = FixedType(agent.BehaviorType),
                HasAgent = agent.GetComponent<Agent>() != null,
                HasRequester = agent.GetComponent<DecisionRequester>() != null,
            };
        }

        /// <summary>
        /// Imports a model into a folder of the project and assigns it to all agents of its behavior, with Undo. The
        /// field is found by its name, because the type of models differs between versions of ML-Agents.
        /// </summary>
        /// <exception cref="TrainerException">It cannot be imported.</exception>
        public static int Use(ModelCandidate model, string folder)
        {
            string path = model.CopyTo(Path.Combine(TrainerDriver.Project, folder));
            string asset = folder.Replace('\\', '/').TrimEnd('/') + "/" + Path.GetFileName(path);
            AssetDatabase.ImportAsset(asset, ImportAssetOptions.ForceUpdate);
            Object imported = AssetDatabase.LoadMainAssetAtPath(asset);
            if (imported == null)
            {
                throw new TrainerException(
                    asset + " was not imported: choose a folder inside Assets, and look at the Console.");
            }
            BehaviorParameters[] agents = Find().Where(agent => agent.BehaviorName == model.Behavior).ToArray();
            Undo.SetCurrentGroupName("Use the model of " + model.Behavior);
            foreach (BehaviorParameters agent in agents)
            {
                using (var fields = new SerializedObject(agent))
                {
                    fields.FindProperty("m_Model").objectReferenceValue = imported;
                    fields.ApplyModifiedProperties(); // this registers the Undo, and marks the scene as changed
                }
            }
            return agents.Length;
        }

        private static string FixedType(BehaviorType type)
        {
            switch (type)
            {
                case BehaviorType.InferenceOnly:
                    return "Inference Only";
                case BehaviorType.HeuristicOnly:
                    return "Heuristic Only";
                default:
                    return null;
            }
        }
    }
}
